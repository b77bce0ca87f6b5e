//! Mounts of a generated OSTree host: those of ostree-prepare-root and systemd on such a host. The deployment is the
//! root and read-only, `/etc` is that of the deployment and `/var` that of the stateroot. `/sysroot` and `/boot` are
//! writable from the beginning: libostree would make them so by remounting the whole file system, which here is that of
//! the machine that runs the tests. Programs and libraries are those of that machine.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::booted::host::{Host, WORKER};
use crate::executables;

/// Shell command that mounts a table below a root, and runs a program in that root. One call of `mount` does it all: tests
/// enter a host thousands of times, and the start of a process costs more than a mount.
///
/// No exec: the first process of a PID namespace only gets signals for which it has a handler.
const ENTER: &str = "set -eu; mount --all --fstab \"$1\"; root=$2; shift 2; \
    PATH=/run/programs:/usr/local/bin:/usr/sbin:/usr/bin chroot \"$root\" \"$@\"";

/// Directories of the machine that runs the tests.
const MACHINE: [&str; 4] = ["usr/bin", "usr/sbin", "usr/lib64", "usr/lib/x86_64-linux-gnu"];

/// Number of tables so far: processes that enter a host at the same time have one each.
static TABLES: AtomicUsize = AtomicUsize::new(0);

/// Table in the format of fstab(5), for the mounts below a root.
struct MountTable<'r> {
    root: &'r Path,
    text: String,
}

impl MountTable<'_> {
    fn add(&mut self, source: &Path, target: &str, kind: &str, options: &str) {
        let [source, target] = [source, &self.root.join(target)].map(escaped);
        writeln!(self.text, "{source} {target} {kind} {options} 0 0").unwrap();
    }

    fn bind(&mut self, source: impl AsRef<Path>, target: &str) {
        self.add(source.as_ref(), target, "none", "bind");
    }
}

/// A path as a field of the table.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011")
}

impl Host {
    /// Arguments of unshare(1) that run a program on the host, without the options for the namespaces. A
    /// mount namespace is required.
    pub fn unshare_arguments<A: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = A>) -> Vec<OsString> {
        let table = self.path(&format!("kernel/mounts-{}", TABLES.fetch_add(1, Ordering::Relaxed)));
        fs::write(&table, self.mount_table()).unwrap();
        let mut arguments: Vec<OsString> =
            ["--propagation", "private", "sh", "-c", ENTER, "sh"].map(OsString::from).to_vec();
        arguments.extend([table.into(), self.path("root").into()]);
        arguments.extend(command.into_iter().map(|word| word.as_ref().to_owned()));
        arguments
    }

    fn mount_table(&self) -> String {
        let (deployment, root) = (self.booted().root, self.path("root"));
        let mut table = MountTable { root: &root, text: String::new() };
        let composefs = self.path("kernel/composefs");
        if composefs.exists() {
            // Like composefs: the root is another file system, which shows the files of the deployment.
            let layers = format!("ro,lowerdir={}:{}", deployment.display(), composefs.display());
            table.add(Path::new("overlay"), "", "overlay", &layers);
        } else {
            table.add(&deployment, "", "none", "bind,ro");
        }
        table.bind(deployment.join("etc"), "etc");
        table.bind(self.sysroot(), "sysroot");
        table.bind(self.var(""), "var");
        table.bind(self.sysroot().join("boot"), "boot");
        for directory in ["run", "programs", "media"] {
            let target = if directory == "run" { "run".to_owned() } else { format!("run/{directory}") };
            table.bind(self.path(directory), &target);
        }
        self.bind_programs(&mut table);
        // A disk for container images, of this size in bytes, of which nothing is in use.
        if let Ok(size) = fs::read_to_string(self.path("kernel/image-disk")) {
            table.add(Path::new("tmpfs"), "var/lib/containers", "tmpfs", &format!("size={size}"));
        }
        table.add(Path::new("proc"), "proc", "proc", "defaults");
        table.add(Path::new("/dev"), "dev", "none", "rbind");
        table.add(Path::new("tmpfs"), "tmp", "tmpfs", "defaults");
        table.bind(self.path("kernel/cmdline"), "proc/cmdline");
        // A kernel with FIPS mode: its file with the mode, and of all others the boot ID.
        if self.path("kernel/sys").exists() {
            table.bind(self.path("kernel/sys"), "proc/sys");
        }
        table.bind(self.path("kernel/boot_id"), "proc/sys/kernel/random/boot_id");
        for directory in MACHINE {
            table.bind(Path::new("/").join(directory), directory);
        }
        if deployment.join("usr/bin/flameholder").exists() {
            self.bind_shipped_agent(&mut table);
        }
        table.text
    }

    /// Mount the programs that stand at another place.
    fn bind_programs(&self, table: &mut MountTable<'_>) {
        for entry in fs::read_dir(self.path("programs")).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if let Some(program) = name.strip_suffix(".at") {
                table.bind(fs::read_to_string(entry.path()).unwrap(), &format!("run/programs/{program}"));
            }
        }
    }

    /// An image that ships the agent has empty files in place of the executables. The one in `/usr/bin` stands beside links
    /// to the machine's programs.
    fn bind_shipped_agent(&self, table: &mut MountTable<'_>) {
        let links = self.path("shipped");
        if !links.exists() {
            fs::create_dir(&links).unwrap();
            let names = fs::read_dir("/usr/bin").unwrap().map(|program| program.unwrap().file_name());
            for name in names.filter(|name| name != "flameholder") {
                symlink(Path::new("/tmp/bin").join(&name), links.join(name)).unwrap();
            }
            fs::write(links.join("flameholder"), "").unwrap();
        }
        table.add(Path::new("/usr/bin"), "tmp/bin", "none", "bind,x-mount.mkdir");
        table.bind(links, "usr/bin");
        table.bind(executables::flameholder(), "usr/bin/flameholder");
        table.bind(executables::worker(), &format!("usr/libexec/flameholder/{WORKER}"));
    }
}
