//! Files and directories in memory, as they are and as they would be after a power loss.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    time::SystemTime,
};

use rustix::io::Errno;

use super::{
    content::{Content, Keep},
    journal::{EntryChange, Ino, Journal, Transaction},
};

/// The directory that everything is in.
pub(super) const ROOT: Ino = 1;

/// What is behind an inode.
#[derive(Debug)]
pub(super) enum Node {
    File(Content),
    Directory(BTreeMap<OsString, Ino>),
}

/// A file or directory.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) node: Node,
    pub(super) permissions: u32,
    /// Entries that name it.
    pub(super) links: u32,
    /// Open files.
    opens: u32,
    pub(super) modified: SystemTime,
}

impl Inode {
    fn new(node: Node, permissions: u32) -> Self {
        Self {
            node,
            permissions,
            links: 0,
            opens: 0,
            modified: SystemTime::now(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.node {
            Node::File(content) => content.len(),
            Node::Directory(_) => 0,
        }
    }

    fn is_live(&self) -> bool {
        self.links > 0 || self.opens > 0
    }
}

/// What a power loss took away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Writes to files that were not synced.
    pub writes: usize,
    /// Names given or taken away whose directory was not synced.
    pub names: usize,
}

/// All files and directories.
#[derive(Debug)]
pub(super) struct Tree {
    inodes: BTreeMap<Ino, Inode>,
    last: Ino,
    journal: Journal,
    used_bytes: u64,
}

impl Tree {
    pub(super) fn new() -> Self {
        let mut root = Inode::new(Node::Directory(BTreeMap::new()), 0o755);
        root.links = 1;
        Self {
            inodes: BTreeMap::from([(ROOT, root)]),
            last: ROOT,
            journal: Journal::default(),
            used_bytes: 0,
        }
    }

    /// Bytes in files that have a name or are open.
    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    pub(super) fn inode(&self, ino: Ino) -> Result<&Inode, Errno> {
        self.inodes.get(&ino).ok_or(Errno::NOENT)
    }

    pub(super) fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode, Errno> {
        self.inodes.get_mut(&ino).ok_or(Errno::NOENT)
    }

    pub(super) fn entries(&self, directory: Ino) -> Result<&BTreeMap<OsString, Ino>, Errno> {
        match &self.inode(directory)?.node {
            Node::Directory(entries) => Ok(entries),
            Node::File(_) => Err(Errno::NOTDIR),
        }
    }

    pub(super) fn find(&self, directory: Ino, name: &OsStr) -> Result<Ino, Errno> {
        self.entries(directory)?
            .get(name)
            .copied()
            .ok_or(Errno::NOENT)
    }

    fn content_mut(&mut self, ino: Ino) -> Result<&mut Content, Errno> {
        match &mut self.inode_mut(ino)?.node {
            Node::File(content) => Ok(content),
            Node::Directory(_) => Err(Errno::ISDIR),
        }
    }

    pub(super) fn content(&self, ino: Ino) -> Result<&Content, Errno> {
        match &self.inode(ino)?.node {
            Node::File(content) => Ok(content),
            Node::Directory(_) => Err(Errno::ISDIR),
        }
    }

    /// A new file or directory.
    pub(super) fn create(
        &mut self,
        directory: Ino,
        name: &OsStr,
        node: Node,
        mode: u32,
    ) -> Result<Ino, Errno> {
        if self.find(directory, name).is_ok() {
            return Err(Errno::EXIST);
        }
        self.entries(directory)?;
        self.last += 1;
        let ino = self.last;
        self.inodes.insert(ino, Inode::new(node, mode & 0o7777));
        self.commit_later(vec![change(directory, name, None, Some(ino))])?;
        Ok(ino)
    }

    /// Another name for a file.
    pub(super) fn link(&mut self, ino: Ino, directory: Ino, name: &OsStr) -> Result<(), Errno> {
        self.content(ino)?;
        if self.find(directory, name).is_ok() {
            return Err(Errno::EXIST);
        }
        self.commit_later(vec![change(directory, name, None, Some(ino))])
    }

    pub(super) fn unlink(&mut self, directory: Ino, name: &OsStr) -> Result<(), Errno> {
        let ino = self.find(directory, name)?;
        self.content(ino)?;
        self.commit_later(vec![change(directory, name, Some(ino), None)])
    }

    pub(super) fn remove_directory(&mut self, directory: Ino, name: &OsStr) -> Result<(), Errno> {
        let ino = self.find(directory, name)?;
        if !self.entries(ino)?.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        self.commit_later(vec![change(directory, name, Some(ino), None)])
    }

    pub(super) fn rename(
        &mut self,
        (from, name): (Ino, &OsStr),
        (to, new_name): (Ino, &OsStr),
    ) -> Result<(), Errno> {
        let ino = self.find(from, name)?;
        let replaced = self.entries(to)?.get(new_name).copied();
        if replaced == Some(ino) {
            return Ok(());
        }
        if let Some(replaced) = replaced
            && let Node::Directory(entries) = &self.inode(replaced)?.node
            && !entries.is_empty()
        {
            return Err(Errno::NOTEMPTY);
        }
        self.commit_later(vec![
            change(from, name, Some(ino), None),
            change(to, new_name, replaced, Some(ino)),
        ])
    }

    pub(super) fn write(&mut self, ino: Ino, at: usize, data: &[u8]) -> Result<(), Errno> {
        self.edit(ino, |content| content.write(at, data))
    }

    pub(super) fn resize(&mut self, ino: Ino, length: usize) -> Result<(), Errno> {
        self.edit(ino, |content| content.resize(length))
    }

    fn edit(&mut self, ino: Ino, edit: impl FnOnce(&mut Content)) -> Result<(), Errno> {
        let content = self.content_mut(ino)?;
        let before = content.len() as u64;
        edit(content);
        let after = content.len() as u64;
        let inode = self.inode_mut(ino)?;
        inode.modified = SystemTime::now();
        if inode.is_live() {
            self.used_bytes = self.used_bytes + after - before;
        }
        Ok(())
    }

    /// What a file holds is durable, and so are its names.
    pub(super) fn sync(&mut self, ino: Ino) -> Result<(), Errno> {
        if let Node::File(content) = &mut self.inode_mut(ino)?.node {
            content.sync();
        }
        for change in self.journal.commit_through(ino) {
            change.before.into_iter().for_each(|ino| self.let_go(ino));
        }
        Ok(())
    }

    /// A sync of a file failed.
    pub(super) fn fail_to_sync(&mut self, ino: Ino) -> Result<(), Errno> {
        if let Node::File(content) = &mut self.inode_mut(ino)?.node {
            content.fail_to_sync();
        }
        Ok(())
    }

    pub(super) fn open(&mut self, ino: Ino) -> Result<(), Errno> {
        self.inode_mut(ino)?.opens += 1;
        Ok(())
    }

    pub(super) fn release(&mut self, ino: Ino) {
        if let Ok(inode) = self.inode_mut(ino) {
            inode.opens = inode.opens.saturating_sub(1);
            let dead = if inode.is_live() { 0 } else { inode.len() };
            self.used_bytes -= dead as u64;
        }
        self.let_go(ino);
    }

    /// Goes back to what is durable, with nothing open.
    pub(super) fn lose_power(&mut self, mut keep: Keep<'_>) -> Lost {
        let kept = keep.of(self.journal.len());
        let mut lost = Lost {
            names: self.journal.len() - kept,
            ..Lost::default()
        };
        while self.journal.len() > kept {
            let undone = self.journal.pop().unwrap_or_default();
            for change in undone.into_iter().rev() {
                self.set_entry(change.directory, change.name, change.before);
            }
        }
        self.journal.clear();
        for inode in self.inodes.values_mut() {
            inode.opens = 0;
        }
        self.inodes
            .retain(|&ino, inode| ino == ROOT || inode.links > 0);
        for inode in self.inodes.values_mut() {
            if let Node::File(content) = &mut inode.node {
                lost.writes += content.lose_power(&mut keep);
            }
        }
        self.used_bytes = self.inodes.values().map(|inode| inode.len() as u64).sum();
        lost
    }

    /// Changes names, until a sync commits it or a power loss undoes it.
    fn commit_later(&mut self, transaction: Transaction) -> Result<(), Errno> {
        for change in &transaction {
            self.entries(change.directory)?;
        }
        for change in &transaction {
            self.set_entry(change.directory, change.name.clone(), change.after);
        }
        self.journal.add(transaction);
        Ok(())
    }

    fn set_entry(&mut self, directory: Ino, name: OsString, now: Option<Ino>) {
        let Ok(inode) = self.inode_mut(directory) else {
            return;
        };
        inode.modified = SystemTime::now();
        let Node::Directory(entries) = &mut inode.node else {
            return;
        };
        let before = match now {
            Some(ino) => entries.insert(name, ino),
            None => entries.remove(&name),
        };
        if let Some(named) = now.and_then(|ino| self.inodes.get_mut(&ino)) {
            let revived = if named.is_live() { 0 } else { named.len() };
            named.links += 1;
            self.used_bytes += revived as u64;
        }
        if let Some(named) = before.and_then(|ino| self.inodes.get_mut(&ino)) {
            named.links -= 1;
            let dead = if named.is_live() { 0 } else { named.len() };
            self.used_bytes -= dead as u64;
        }
    }

    /// Forgets what nothing can bring back.
    fn let_go(&mut self, ino: Ino) {
        let is_live = self.inodes.get(&ino).is_some_and(Inode::is_live);
        if !is_live && !self.journal.mentions(ino) {
            self.inodes.remove(&ino);
        }
    }
}

fn change(directory: Ino, name: &OsStr, before: Option<Ino>, after: Option<Ino>) -> EntryChange {
    EntryChange {
        directory,
        name: name.to_owned(),
        before,
        after,
    }
}

#[cfg(test)]
mod tests;
