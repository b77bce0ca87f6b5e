//! The disk in memory compared with a real file system: the same acts must give the same results and the same
//! tree.

use std::fs;
use std::os::unix::fs::chown;

use flameholder::core::values::names::ManagedPath;
use flameholder::core::values::tree::FileAttributes;
use flameholder::host::{HostDisk, HostError, Root};
use memory_disk::{MemoryDisk, Unwatched};
use proptest::prelude::*;

use crate::disk::sight;

/// Act or read of the port.
#[derive(Debug, Clone)]
enum Act {
    MakeDirectory(ManagedPath, FileAttributes),
    SetAttributes(ManagedPath, FileAttributes),
    CreateFile(ManagedPath, Vec<u8>, FileAttributes, bool),
    CreateSymlink(ManagedPath, String, (u32, u32)),
    HardLink(ManagedPath, ManagedPath),
    Append(ManagedPath, Vec<u8>),
    Rename(ManagedPath, ManagedPath),
    Exchange(ManagedPath, ManagedPath),
    RemoveFile(ManagedPath),
    RemoveDirectory(ManagedPath),
    Sync(Vec<Option<ManagedPath>>),
    Look(ManagedPath),
}

/// Few names, so that acts meet; `v` is another file system if one can be mounted.
fn any_path() -> impl Strategy<Value = ManagedPath> {
    prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("c"), Just("v")], 1..4)
        .prop_map(|names| ManagedPath::constant(&format!("/{}", names.join("/"))))
}

fn any_attributes() -> impl Strategy<Value = FileAttributes> {
    let modes = prop_oneof![5 => Just(0o755), 1 => Just(0o700), 1 => Just(0o644), 1 => Just(0o777), 1 => Just(0o4750)];
    let owners = prop_oneof![4 => Just(0_u32), 1 => Just(1000_u32)];
    (modes, owners.clone(), owners).prop_map(|(mode, uid, gid)| FileAttributes { mode, uid, gid })
}

fn any_target() -> impl Strategy<Value = String> {
    const TARGETS: &[&str] =
        &["a", "../a", "b/c", ".", "..", "../..", "/a", "nowhere", "./b//c/.", "../v", "a/../b"];
    prop::sample::select(TARGETS).prop_map(str::to_owned)
}

fn any_act() -> impl Strategy<Value = Act> {
    let (path, give) = (any_path, any_attributes);
    let bytes = || prop::collection::vec(any::<u8>(), 0..4);
    let synced = prop::collection::vec(prop::option::of(path()), 0..3);
    prop_oneof![
        4 => (path(), give()).prop_map(|(path, rights)| Act::MakeDirectory(path, rights)),
        1 => (path(), give()).prop_map(|(path, rights)| Act::SetAttributes(path, rights)),
        4 => (path(), bytes(), give(), any::<bool>())
            .prop_map(|(path, bytes, rights, label)| Act::CreateFile(path, bytes, rights, label)),
        2 => (path(), any_target(), (0_u32..3, 0_u32..3))
            .prop_map(|(path, target, owner)| Act::CreateSymlink(path, target, owner)),
        2 => (path(), path()).prop_map(|(from, to)| Act::HardLink(from, to)),
        1 => (path(), bytes()).prop_map(|(path, bytes)| Act::Append(path, bytes)),
        3 => (path(), path()).prop_map(|(from, to)| Act::Rename(from, to)),
        3 => (path(), path()).prop_map(|(a, b)| Act::Exchange(a, b)),
        1 => path().prop_map(Act::RemoveFile),
        1 => path().prop_map(Act::RemoveDirectory),
        1 => synced.prop_map(Act::Sync),
        2 => path().prop_map(Act::Look),
    ]
}

/// Result of an act as text: the number and message of an error, or the data read.
fn perform(disk: &dyn HostDisk, act: &Act) -> String {
    let label = |wanted: &bool| wanted.then_some(b"a_label_t\0".as_slice());
    let done = match act {
        Act::MakeDirectory(path, rights) => disk.make_directory(path, *rights, label(&(rights.uid == 0))),
        Act::SetAttributes(path, rights) => disk.set_attributes(path, *rights),
        Act::CreateFile(path, bytes, rights, is) => disk.create_file(path, bytes, *rights, label(is)),
        Act::CreateSymlink(path, target, owner) => disk.create_symlink(path, target, *owner, None),
        Act::HardLink(from, to) => disk.hard_link(from, to),
        Act::Append(path, bytes) => disk.append(path, bytes),
        Act::Rename(from, to) => disk.rename(from, to),
        Act::Exchange(a, b) => disk.exchange(a, b),
        Act::RemoveFile(path) => disk.remove_file(path),
        Act::RemoveDirectory(path) => disk.remove_directory(path),
        Act::Sync(paths) => disk.sync(paths),
        Act::Look(path) => return look(disk, path),
    };
    said(done)
}

fn look(disk: &dyn HostDisk, path: &ManagedPath) -> String {
    let status = disk.status(path).map(|status| status.map(|status| (status.kind, status.attributes)));
    let mounts = |path| disk.mount(path).ok();
    // Mount IDs differ between the two disks; only their equality is compared.
    let mount = mounts(Some(path)).map(|mount| Some(mount) == mounts(None));
    [
        said(status),
        said(disk.read(path, 5)),
        said(disk.link_target(path)),
        said(disk.label(path)),
        said(disk.directory_label(path)),
        said(disk.below(path)),
        format!("{mount:?}"),
    ]
    .join(", ")
}

fn said<T: std::fmt::Debug>(result: Result<T, HostError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{error} {:?}", error.errno()),
    }
}

/// Compare on a fresh directory, in which `/v` may be a file system of its own.
fn compare(acts: &[Act], mounted: bool) -> Result<(), TestCaseError> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let point = place.path().join("v");
    fs::create_dir(&point).expect("a directory");
    let mount = mounted.then(|| Mounted::new(&point));
    chown(&point, Some(0), Some(0)).expect("its owner");
    let mounts: &[&str] = if mount.is_some() { &["/v"] } else { &[] };
    let real = Root::open(place.path()).expect("a root");
    let memory = MemoryDisk::new(sight::load(place.path(), mounts), &Unwatched);
    for (step, act) in acts.iter().enumerate() {
        let (is, should) = (perform(&memory, act), perform(&real, act));
        prop_assert_eq!(is, should, "step {}: {:?}", step, act);
    }
    let seen = sight::see(&memory.image());
    let wrong = sight::differences(&seen, &sight::see(&sight::load(place.path(), mounts)));
    prop_assert!(wrong.is_empty(), "{:?}", wrong);
    Ok(())
}

/// Mounted file system, unmounted when dropped.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn new(point: &std::path::Path) -> Self {
        let flags = rustix::mount::MountFlags::empty();
        let mounted = rustix::mount::mount("none", point, "tmpfs", flags, Some(c"mode=0755,size=4m"));
        mounted.expect("cannot mount a tmpfs: run this test with CAP_SYS_ADMIN");
        Self(point.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let gone = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
        gone.expect("the tmpfs can be unmounted");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if testbed::is_exhaustive() { 20_000 } else { 600 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn memory_disk_equals_a_real_file_system(acts in prop::collection::vec(any_act(), 1..40)) {
        testbed::preconditions::require_root();
        compare(&acts, false)?;
    }

    #[test]
    fn memory_disk_equals_two_real_file_systems(acts in prop::collection::vec(any_act(), 1..40)) {
        testbed::preconditions::require_root();
        compare(&acts, true)?;
    }
}
