//! All faults that the suite knows: those that break any node from outside, and those that need failpoints inside.

use helve_tests::fault::{self, Fault};

use super::{
    crash_points, joint_crash::JointCrash, lost_voter::LostVoter, restored_disk::RestoredDisk,
    snapshots,
};

/// All of them.
pub(crate) fn all() -> Vec<Box<dyn Fault>> {
    let mut all = fault::all();
    all.extend(crash_points::all());
    all.extend(snapshots::all());
    all.push(Box::new(JointCrash::default()));
    all.push(Box::new(LostVoter));
    all.push(Box::new(RestoredDisk::default()));
    all
}

/// The fault of this name.
pub(crate) fn named(name: &str) -> Option<Box<dyn Fault>> {
    all().into_iter().find(|fault| fault.name() == name)
}
