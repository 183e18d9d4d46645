//! Whose connection it is: the kernel knows which process holds a socket.

use std::{collections::BTreeMap, fs, io, net::SocketAddr, path::Path};

use super::Side;

/// The process that each seat's node runs as.
pub(super) type Pids = BTreeMap<u64, u32>;

/// All connections, and which node holds which of them, as the kernel said at one time. Taking it costs far more than looking into
/// it, most of all where there are many nodes.
#[derive(Debug)]
pub(super) struct Scan {
    table: String,
    /// The seat that holds a socket, by the socket's inode.
    holders: BTreeMap<u64, u64>,
}

impl Scan {
    pub(super) fn take(pids: &Pids) -> io::Result<Self> {
        let table = fs::read_to_string("/proc/net/tcp")?;
        let mut holders = BTreeMap::new();
        for (&seat, pid) in pids {
            for inode in sockets(Path::new(&format!("/proc/{pid}/fd")))? {
                holders.insert(inode, seat);
            }
        }
        Ok(Self { table, holders })
    }

    /// Who dialled from `from` to `to`; `None` if the connection is gone. A process that is no node counts among the clients.
    pub(super) fn dialler(&self, from: SocketAddr, to: SocketAddr) -> Option<Side> {
        let inode = inode(&self.table, from, to)?;
        let seat = self.holders.get(&inode);
        Some(seat.map_or(Side::Clients, |&seat| Side::Node(seat)))
    }
}

/// The inode of a socket's end, by the kernel's table of IPv4 connections. One that its process has closed has none.
fn inode(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    let (local, remote) = (in_hex(local)?, in_hex(remote)?);
    let row = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|fields| {
            fields.get(1) == Some(&local.as_str()) && fields.get(2) == Some(&remote.as_str())
        })?;
    row.get(9)?.parse().ok().filter(|&inode| inode != 0)
}

/// An address as the table has it: the bytes in the order of this machine.
fn in_hex(address: SocketAddr) -> Option<String> {
    let SocketAddr::V4(address) = address else {
        return None;
    };
    let ip = u32::from_ne_bytes(address.ip().octets());
    Some(format!("{ip:08X}:{:04X}", address.port()))
}

/// The inodes of the sockets that a process holds. One that is gone holds none.
fn sockets(directory: &Path) -> io::Result<Vec<u64>> {
    let files = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files?,
    };
    // Files come and go meanwhile.
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let inodes = links.filter_map(|link| {
        let socket = link.to_str()?.strip_prefix("socket:[")?;
        socket.strip_suffix(']')?.parse().ok()
    });
    Ok(inodes.collect())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::wait::{Look, PATIENCE, block_until};

    #[test]
    fn the_process_that_dialled_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (from, to) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let us = Pids::from([(3, std::process::id())]);
        let dialler = |pids: &Pids| Scan::take(pids).map(|scan| scan.dialler(from, to));
        assert_eq!(dialler(&us).unwrap(), Some(Side::Node(3)));
        // The files of process 1 are for its owner to see.
        let stranger = dialler(&Pids::from([(3, 1)]));
        assert!(stranger.is_err() || stranger.is_ok_and(|found| found == Some(Side::Clients)));
        drop(stream);
        // A process that another test starts may hold our files until it runs a program of its own.
        block_until(PATIENCE, "the end of the connection", || {
            match dialler(&us) {
                Ok(None) => Look::Done(()),
                seen => Look::NotYet(format!("{seen:?}")),
            }
        })
        .unwrap();
    }

    #[test]
    fn a_row_of_the_kernels_table_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1CE8 0302017F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 20 4 30 10 -1\n";
        let local = "127.0.0.1:7400".parse().unwrap();
        let remote = "127.1.2.3:40000".parse().unwrap();
        if cfg!(target_endian = "little") {
            assert_eq!(inode(table, local, remote), Some(4711));
        }
        assert_eq!(inode(table, remote, local), None);
    }
}
