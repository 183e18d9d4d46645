//! Images of a node's disk, to put back later.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};

use super::Cluster;

impl Cluster {
    /// Copies the data of a node that does not run, as an image of its volume would hold it.
    ///
    /// # Errors
    ///
    /// If the node runs, or the data cannot be copied.
    pub fn take_image(&self, seat: u64) -> Result<PathBuf> {
        ensure!(self.node(seat).pid().is_none(), "node {seat} runs");
        let image = self.directory.path().join(format!("image-{seat}"));
        if image.exists() {
            fs::remove_dir_all(&image)?;
        }
        copy(&self.data_directory(seat), &image)?;
        Ok(image)
    }

    /// Puts the disk of a node that does not run back to an [image](Self::take_image).
    ///
    /// # Errors
    ///
    /// If the node runs, or the data cannot be copied.
    pub fn put_image_back(&mut self, seat: u64, image: &Path) -> Result<()> {
        self.empty(seat)?;
        Ok(copy(image, &self.data_directory(seat))?)
    }

    /// Removes all data of a node that does not run.
    ///
    /// # Errors
    ///
    /// If the node runs, or the data cannot be removed.
    pub fn empty(&mut self, seat: u64) -> Result<()> {
        ensure!(self.node(seat).pid().is_none(), "node {seat} runs");
        for entry in fs::read_dir(self.data_directory(seat))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
