//! One disk's files, and what the disk does wrong with them.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use rustix::io::Errno;

use super::{
    journal::Ino,
    switches::{Access, DiskCounts, Switches, Sync},
    tree::{Inode, Node, Tree},
    wire::{Answer, Attributes},
};

/// Kinds of files, as the kernel numbers them.
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

/// What an open directory held when it was opened: inode, mode, name.
type Listing = Vec<(Ino, u32, OsString)>;

/// A file system, as far as it does not depend on being mounted.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) switches: Switches,
    pub(super) counts: DiskCounts,
    listings: BTreeMap<u64, Listing>,
    last_listing: u64,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            tree: Tree::new(),
            switches: Switches::default(),
            counts: DiskCounts::default(),
            listings: BTreeMap::new(),
            last_listing: 0,
        }
    }

    /// Whether a change may take this many more bytes.
    fn admit(&mut self, growth: usize) -> Result<(), Errno> {
        if self.switches.access == Access::ReadOnly {
            self.counts.read_only += 1;
            return Err(Errno::ROFS);
        }
        if growth > 0 && self.tree.used_bytes() + growth as u64 > self.switches.capacity_bytes {
            self.counts.full += 1;
            return Err(Errno::NOSPC);
        }
        Ok(())
    }

    pub(super) fn sync(&mut self, ino: Ino) -> Result<(), Errno> {
        let fails = match self.switches.sync {
            Sync::Works => false,
            Sync::FailsOnce => {
                self.switches.sync = Sync::Works;
                true
            }
            Sync::Fails => true,
        };
        if fails {
            self.counts.failed_syncs += 1;
            self.tree.fail_to_sync(ino)?;
            return Err(Errno::IO);
        }
        self.counts.syncs += 1;
        self.tree.sync(ino)
    }

    pub(super) fn create(
        &mut self,
        directory: Ino,
        name: &OsStr,
        node: Node,
        mode: u32,
    ) -> Result<Attributes, Errno> {
        // A name takes a little room, too: a full disk takes no new files.
        self.admit(1)?;
        let ino = self.tree.create(directory, name, node, mode)?;
        self.attributes(ino)
    }

    pub(super) fn link(&mut self, ino: Ino, directory: Ino, name: &OsStr) -> Result<(), Errno> {
        self.admit(1)?;
        self.tree.link(ino, directory, name)
    }

    pub(super) fn unlink(&mut self, directory: Ino, name: &OsStr) -> Result<(), Errno> {
        self.admit(0)?;
        self.tree.unlink(directory, name)
    }

    pub(super) fn remove_directory(&mut self, directory: Ino, name: &OsStr) -> Result<(), Errno> {
        self.admit(0)?;
        self.tree.remove_directory(directory, name)
    }

    pub(super) fn rename(&mut self, from: (Ino, &OsStr), to: (Ino, &OsStr)) -> Result<(), Errno> {
        self.admit(0)?;
        self.tree.rename(from, to)
    }

    pub(super) fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let at = position(offset)?;
        let end = at.checked_add(data.len()).ok_or(Errno::FBIG)?;
        self.admit(end.saturating_sub(self.tree.content(ino)?.len()))?;
        self.tree.write(ino, at, data)
    }

    pub(super) fn resize(&mut self, ino: Ino, length: u64) -> Result<(), Errno> {
        let length = position(length)?;
        self.admit(length.saturating_sub(self.tree.content(ino)?.len()))?;
        self.tree.resize(ino, length)
    }

    pub(super) fn attributes(&self, ino: Ino) -> Result<Attributes, Errno> {
        let inode = self.tree.inode(ino)?;
        Ok(Attributes {
            ino,
            size: inode.len() as u64,
            mode: mode(inode),
            links: inode.links,
            modified: inode.modified,
        })
    }

    /// Opens a directory, and answers the handle under which it is listed as it is now.
    pub(super) fn open_directory(&mut self, directory: Ino) -> Result<u64, Errno> {
        let entries = self.tree.entries(directory)?.iter();
        let listing = entries
            .map(|(name, &ino)| Ok((ino, mode(self.tree.inode(ino)?), name.clone())))
            .collect::<Result<Listing, Errno>>()?;
        self.last_listing += 1;
        self.listings.insert(self.last_listing, listing);
        Ok(self.last_listing)
    }

    /// What an open directory holds, from the entry behind `offset` on, in at most `limit` bytes.
    pub(super) fn list(&self, directory: Ino, handle: u64, offset: u64, limit: usize) -> Answer {
        let own = [".", ".."].map(|name| (directory, DIRECTORY, name.into()));
        let listing = self.listings.get(&handle).into_iter().flatten();
        let all = (1..).zip(own.iter().chain(listing));
        let mut answer = Answer::empty();
        for (next, (ino, mode, name)) in all.skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
            if !answer.add_entry(limit, (*ino, next, *mode), name) {
                break;
            }
        }
        answer
    }

    pub(super) fn close_directory(&mut self, handle: u64) {
        self.listings.remove(&handle);
    }
}

fn position(offset: u64) -> Result<usize, Errno> {
    usize::try_from(offset).map_err(|_| Errno::FBIG)
}

fn mode(inode: &Inode) -> u32 {
    let kind = match inode.node {
        Node::File(_) => REGULAR,
        Node::Directory(_) => DIRECTORY,
    };
    kind | inode.permissions
}
