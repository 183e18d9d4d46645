//! What a snapshot's manifest says of the files of a checkpoint.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use helve_proto::peer::v1::{SnapshotFile, SnapshotManifest};
use prost::Message;
use rocksdb::DB;

use super::snapshot_dir::{ENGINE, FORMAT, MANIFEST_NAME, is_immutable};
use crate::storage::{
    durable_file,
    error::StorageError,
    options::{self, StateOptions},
    state_meta,
};

const BUFFER_BYTES: usize = 256 << 10;

/// Writes the manifest of a fresh checkpoint, and makes all of it durable. `known` are files of an earlier one of the same state: a table
/// file of the same name is the same file, and is not read again, lest each snapshot read the whole state.
pub(super) fn describe(
    path: &Path,
    options: &StateOptions,
    known: &[SnapshotFile],
) -> Result<SnapshotManifest, StorageError> {
    // What the checkpoint itself says: entries that were applied while it was taken may be in it.
    let (last_log_id, membership) = {
        let families = options::state_families(options);
        let db =
            DB::open_cf_descriptors_read_only(&options::state_db(options), path, families, false)
                .map_err(StorageError::engine("open the checkpoint"))?;
        (
            state_meta::read_applied(&db)?,
            state_meta::read_membership(&db)?,
        )
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(StorageError::io("read", path))? {
        let entry = entry.map_err(StorageError::io("read", path))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(known) = known.iter().find(|file| file.name == name)
            && is_immutable(&name)
        {
            files.push(known.clone());
        } else if is_content(&name) {
            files.push(describe_file(&entry.path(), name)?);
        } else {
            fs::remove_file(entry.path()).map_err(StorageError::io("remove", &entry.path()))?;
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let manifest = SnapshotManifest {
        format: FORMAT,
        engine: ENGINE.to_owned(),
        last_log_id,
        membership,
        files,
    };
    write_manifest(path, &manifest)?;
    Ok(manifest)
}

fn describe_file(path: &Path, name: String) -> Result<SnapshotFile, StorageError> {
    let mut file = File::open(path).map_err(StorageError::io("open", path))?;
    let (size_bytes, crc32c) = measure(&mut file).map_err(StorageError::io("read", path))?;
    file.sync_all().map_err(StorageError::io("sync", path))?;
    Ok(SnapshotFile {
        name,
        size_bytes,
        crc32c,
    })
}

/// The size and the CRC32C of what is left of a file. Blocks.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn measure(file: &mut File) -> io::Result<(u64, u32)> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut size_bytes, mut crc32c) = (0, 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((size_bytes, crc32c));
        }
        size_bytes += read as u64;
        crc32c = crc32c::crc32c_append(crc32c, &buffer[..read]);
    }
}

/// Writes the manifest beside its files, and makes their directory durable.
pub(in crate::storage) fn write_manifest(
    path: &Path,
    manifest: &SnapshotManifest,
) -> Result<(), StorageError> {
    let manifest_path = path.join(MANIFEST_NAME);
    durable_file::replace_sealed(&manifest_path, &manifest.encode_to_vec())
        .map_err(StorageError::io("write", &manifest_path))
}

/// Belongs to the database's content, rather than to a process that had it open.
fn is_content(name: &str) -> bool {
    let extension = Path::new(name).extension();
    let starts = ["MANIFEST-", "CURRENT", "OPTIONS-", "IDENTITY"];
    is_immutable(name)
        || extension.is_some_and(|extension| extension == "log" || extension == "blob")
        || starts.iter().any(|start| name.starts_with(start))
}
