//! Obstacles: full file systems, held locks, mounts that come late.

use std::fs;

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use testbed::booted::host::Host;
use testbed::model::run::Outcome;

use super::step::Obstacle;

/// Run a command on a file system of its own in place of `$1`, which is filled up to the last `$2` KiB. Its content
/// is copied to the host's own directory afterwards, without the file that filled it. `$3` is the path of the same
/// directory below `/sysroot`.
const FULL: &str = r#"
directory=$1 free=$2 beside=$3
shift 3
mkdir /tmp/full /tmp/real || exit 99
mount --bind "$directory" /tmp/real || exit 99
mount -t tmpfs -o size=64M tmpfs /tmp/full || exit 99
cp -a "$directory/." /tmp/full/ || exit 99
mount --bind /tmp/full "$beside" || exit 99
mount --bind /tmp/full "$directory" || exit 99
head -c 64M /dev/zero > "$directory/filler" 2> /dev/null
truncate -s "-${free}K" "$directory/filler" || exit 99
unshare --mount "$@"
code=$?
rm "$directory/filler"
find /tmp/real -mindepth 1 -delete || exit 99
cp -a "$directory/." /tmp/real/ || exit 99
exit $code
"#;

/// Run a command while an empty file system hides `$1`.
const HIDDEN: &str = r#"
mount -t tmpfs tmpfs "$1" || exit 99
shift
unshare --mount "$@"
"#;

/// Run `flameholder` with these arguments as a service, in spite of the obstacle.
pub(crate) fn run_with(host: &Host, obstacle: Option<Obstacle>, arguments: &[&str]) -> Outcome {
    let script = |text: &str, values: &[&str]| {
        let words = [&["sh", "-c", text, "sh"], values, &["flameholder"], arguments].concat();
        let outcome = host.run(words);
        assert_ne!(outcome.code, Some(99), "the obstacle cannot be made: {outcome:?}");
        outcome
    };
    let plain = || host.run([&["unshare", "--mount", "flameholder"], arguments].concat());
    match obstacle {
        None => plain(),
        Some(Obstacle::FullBoot(free)) => script(FULL, &["/boot", &free.to_string(), "/sysroot/boot"]),
        Some(Obstacle::FullVar(free)) => {
            script(FULL, &["/var", &free.to_string(), "/sysroot/ostree/deploy/fedora-coreos/var"])
        }
        Some(Obstacle::LateMount(directory)) => script(HIDDEN, &[&format!("/var/{directory}")]),
        Some(Obstacle::OwnLock) => {
            let path = host.var("lib/flameholder/lock");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let lock = open(&path);
            flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
            plain()
        }
        Some(Obstacle::SysrootLock) => {
            let lock = open(&host.sysroot().join("ostree/lock"));
            fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
            let impatient = ["env", "FLAMEHOLDER_LOCK_TIMEOUT=1", "unshare", "--mount", "flameholder"];
            host.run([&impatient[..], arguments].concat())
        }
    }
}

fn open(path: &std::path::Path) -> fs::File {
    fs::File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}
