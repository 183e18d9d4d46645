//! The decoders of what is in a place of backups. Listings of a bucket are read by a library.

use super::shown::{Decoder, by, no_client};

const BACKUP: &str = "node/src/backup.rs";
const ARCHIVE: &str = "node/src/backup/archive.rs";
const DIRECTORY: &str = "node/src/backup/directory.rs";
const SEGMENT: &str = "node/src/backup/segment.rs";
const TESTS: &str = "node/src/backup/made_up_tests.rs";
const MADE_UP_LISTING: &str = "a_listing_that_a_bucket_makes_up_names_segments_or_nothing";
const MADE_UP_MANIFEST: &str = "a_manifest_that_a_bucket_makes_up_is_refused_or_stays_in_its_place";
const MADE_UP_SEGMENT: &str = "a_segment_that_a_bucket_makes_up_is_refused_or_holds_what_it_says";

pub(super) const IN_BACKUPS: &[Decoder] = &[
    by(BACKUP, "read", TESTS, MADE_UP_MANIFEST),
    by(BACKUP, "check_proof", TESTS, MADE_UP_MANIFEST),
    by(DIRECTORY, "manifest_of", TESTS, MADE_UP_MANIFEST),
    by(DIRECTORY, "file_of", TESTS, MADE_UP_LISTING),
    by(ARCHIVE, "of", TESTS, MADE_UP_LISTING),
    by(ARCHIVE, "parts_of", TESTS, MADE_UP_LISTING),
    by(
        "node/src/backup/segment_path.rs",
        "first_of",
        TESTS,
        MADE_UP_LISTING,
    ),
    by(SEGMENT, "archived", TESTS, MADE_UP_SEGMENT),
    by(SEGMENT, "ends_by", TESTS, MADE_UP_SEGMENT),
    by(SEGMENT, "frames", TESTS, MADE_UP_SEGMENT),
    no_client(
        "node/src/backup/bucket.rs",
        "key",
        "names of the node, or those that a listing gave back",
    ),
    no_client(
        "node/src/backup/bucket/connect.rs",
        "plain_host",
        "the operator's endpoint",
    ),
    no_client(
        "node/src/backup/bucket/wire.rs",
        "is_of_machine",
        "the operator's endpoint",
    ),
    no_client(
        "node/src/backup/url.rs",
        "of",
        "the operator's command line",
    ),
];
