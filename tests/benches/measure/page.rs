//! Pages of metrics.

use anyhow::{Context as _, Result, bail};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A page of metrics, from `http://HOST:PORT/PATH`.
pub(crate) async fn scrape(url: &str) -> Result<String> {
    let rest = url.strip_prefix("http://").context("plain HTTP")?;
    let (host, path) = rest.split_once('/').context("a path")?;
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    if !page.starts_with("HTTP/1.0 200") && !page.starts_with("HTTP/1.1 200") {
        bail!("{url}: {}", page.lines().next().unwrap_or_default());
    }
    Ok(page)
}
