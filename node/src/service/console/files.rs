//! The files of the console, which are part of the binary.

use axum::{
    body::Body,
    http::{HeaderValue, Response, header::CONTENT_TYPE},
    response::IntoResponse as _,
};

/// A file, and where it is.
pub(super) struct File {
    pub(super) path: &'static str,
    content_type: &'static str,
    pub(super) text: &'static str,
}

/// A file of the directory `page`, under its name.
macro_rules! file {
    ($name:literal, $content_type:expr) => {
        File {
            path: concat!("/console/", $name),
            content_type: $content_type,
            text: include_str!(concat!("page/", $name)),
        }
    };
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// All of them.
pub(super) const ALL: &[File] = &[
    File {
        path: "/console/",
        content_type: HTML,
        text: include_str!("page/index.html"),
    },
    file!("style.css", CSS),
    file!("icon.svg", SVG),
    file!("main.js", SCRIPT),
    file!("api.js", SCRIPT),
    file!("dom.js", SCRIPT),
    file!("format.js", SCRIPT),
    file!("cluster.js", SCRIPT),
    file!("tenants.js", SCRIPT),
    file!("records.js", SCRIPT),
    file!("handle.js", SCRIPT),
    file!("events.js", SCRIPT),
];

impl File {
    pub(super) fn response(&self) -> Response<Body> {
        let content_type = HeaderValue::from_static(self.content_type);
        ([(CONTENT_TYPE, content_type)], self.text).into_response()
    }
}
