//! A host that was booted through OSTree, as far as a process can tell.

use std::{
    cell::RefCell,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use osimage::{Os, Scratch, SysrootBuilder};
use serde_json::Value;

use crate::{
    boot::{self, Entry},
    booted::config::whole,
    executables,
    model::run::{Outcome, launch},
};

const STATEROOT: &str = "fedora-coreos";
const ENTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/booted/enter.sh");
/// Where hosts lie: nothing here is about what a power cut takes back, and a flush on a disk that others use takes long.
const MEMORY: &str = "/dev/shm";
pub const WORKER: &str = "flameholder-ostree";

/// What systemd-tmpfiles makes on such a host's first boot.
const OF_TMPFILES: [&str; 5] = ["usrlocal", "home/core", "roothome", "opt", "lib/kubelet"];

/// The host: its disk, its `/run`, and what the kernel says of its boot.
pub struct Host {
    scratch: Scratch,
    booted: RefCell<Entry>,
}

/// What the units of a boot said.
#[derive(Debug)]
pub struct Boot {
    pub activate: Outcome,
    pub recover: Outcome,
    pub settle: Outcome,
}

impl Boot {
    pub fn is_fine(&self) -> bool {
        [&self.activate, &self.recover, &self.settle].iter().all(|outcome| outcome.code == Some(0))
    }

    /// A unit rebooted the host, as far as it goes here: there is no systemd that would.
    pub fn is_rebooted(&self) -> bool {
        let units = [&self.activate, &self.settle];
        units.iter().any(|unit| unit.code == Some(1) && unit.stderr.contains("rebooting: "))
    }

    /// All units succeeded.
    pub fn ensure_fine(self) -> Self {
        assert!(self.is_fine(), "{self:?}");
        self
    }
}

impl Host {
    /// Installs the OS and boots it for the first time.
    pub fn install(os: Os) -> Self {
        crate::preconditions::require_mount_namespaces();
        let scratch = Scratch::below(Path::new(MEMORY)).unwrap();
        let sysroot = scratch.path().join("sysroot");
        SysrootBuilder::new(os).stateroot(STATEROOT).create(&sysroot).unwrap();
        for directory in ["root", "run", "programs", "media", "kernel"] {
            fs::create_dir(scratch.path().join(directory)).unwrap();
        }
        let first = boot::entries(&sysroot).remove(0);
        let host = Self { scratch, booted: RefCell::new(first) };
        for directory in OF_TMPFILES {
            fs::create_dir_all(host.var(directory)).unwrap();
        }
        let own = executables::flameholder();
        host.put_program("flameholder", Some(&own));
        host.restore_worker();
        host.start(0);
        host
    }

    /// A second host that is in every respect like this one is now.
    pub fn copy(&self) -> Self {
        let scratch = Scratch::below(Path::new(MEMORY)).unwrap();
        let everything = format!("{}/.", self.scratch.path().display());
        let outcome = launch("cp", ["-a", &everything, scratch.path().to_str().unwrap()]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let mut booted = self.booted.borrow().clone();
        booted.root = scratch.path().join(booted.root.strip_prefix(self.scratch.path()).unwrap());
        Self { scratch, booted: RefCell::new(booted) }
    }

    /// Makes a program the one at `original`, or takes it away.
    pub fn put_program(&self, name: &str, original: Option<&Path>) {
        let (program, at) =
            (self.path("programs").join(name), self.path("programs").join(format!("{name}.at")));
        let [_, _] = [&program, &at].map(|path| fs::remove_file(path).is_ok());
        if let Some(original) = original {
            fs::write(at, original.display().to_string()).unwrap();
            fs::write(program, "").unwrap();
        }
    }

    /// Puts a script where programs are looked for first.
    pub fn put_script(&self, name: &str, text: &str) {
        self.put_program(name, None);
        let path = self.path("programs").join(name);
        // Written by another process: a child that a parallel test forks meanwhile would keep it busy.
        let write = "printf '%s' \"$2\" > \"$1\" && chmod 755 \"$1\"";
        let written = launch("sh", ["-c", write, "sh", path.to_str().unwrap(), text]);
        assert_eq!(written.code, Some(0), "{written:?}");
    }

    /// Takes a program of the host's own away; the machine's may be found then.
    pub fn remove_program(&self, name: &str) {
        self.put_program(name, None);
    }

    /// Puts the worker under another name.
    pub fn put_worker_as(&self, name: &str) {
        self.put_program(name, Some(&executables::worker()));
    }

    /// Puts the worker where it belongs.
    pub fn restore_worker(&self) {
        self.put_worker_as(WORKER);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub fn sysroot(&self) -> PathBuf {
        self.path("sysroot")
    }

    /// A path below `/var`.
    pub fn var(&self, path: &str) -> PathBuf {
        self.sysroot().join("ostree/deploy").join(STATEROOT).join("var").join(path)
    }

    /// A path below `/etc` of the deployment that runs.
    pub fn etc(&self, path: &str) -> PathBuf {
        self.booted().root.join("etc").join(path)
    }

    /// Writes a file below `/etc` as an administrator would.
    pub fn write_etc(&self, path: &str, text: &str) {
        let path = self.etc(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The text of a file below `/etc`, where there is one.
    pub fn read_etc(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.etc(path)).ok()
    }

    /// The text of a file below `/var`, where there is one.
    pub fn read_var(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.var(path)).ok()
    }

    /// Puts an image where the host finds it, and says how it calls it.
    pub fn image(&self, os: &Os) -> String {
        let tag = os.version();
        osimage::write_image(os, &self.path("media/images"), Some(&tag)).unwrap();
        format!("ostree-unverified-image:oci:/run/media/images:{tag}")
    }

    /// Takes all images and configs away, as where no registry answers.
    pub fn remove_media(&self) {
        fs::remove_dir_all(self.path("media")).unwrap();
        fs::create_dir(self.path("media")).unwrap();
    }

    /// Writes a config, and says how the host calls it.
    pub fn config(&self, config: &Value) -> String {
        let name = config["metadata"]["name"].as_str().unwrap();
        fs::write(self.path("media").join(name), config.to_string()).unwrap();
        format!("/run/media/{name}")
    }

    /// What runs.
    pub fn booted(&self) -> Entry {
        self.booted.borrow().clone()
    }

    pub fn entries(&self) -> Vec<Entry> {
        boot::entries(&self.sysroot())
    }

    /// What would boot next if the power went now.
    pub fn default(&self) -> Entry {
        self.entries().remove(0)
    }

    /// Runs a program on the host to its end.
    pub fn run<A: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = A>) -> Outcome {
        let mut arguments: Vec<OsString> =
            ["--mount", "--pid", "--fork", "--kill-child"].map(OsString::from).to_vec();
        arguments.extend(self.entering(command));
        launch("unshare", arguments)
    }

    /// What unshare(1) is called with to run a program on the host, but for the namespaces that it is to have. It needs
    /// one of mounts.
    pub fn entering<A: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = A>) -> Vec<OsString> {
        let root = self.booted().root;
        let deployment = root.strip_prefix(self.sysroot()).unwrap();
        let mut arguments: Vec<OsString> = ["--propagation", "private"].map(OsString::from).to_vec();
        arguments.extend(["sh".into(), ENTER.into(), self.scratch.path().into()]);
        arguments.extend([deployment.into(), STATEROOT.into()]);
        arguments.extend(command.into_iter().map(|word| word.as_ref().to_owned()));
        arguments
    }

    /// The same where it has to succeed; says what it printed.
    pub fn must<A: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = A>) -> String {
        let outcome = self.run(command);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.stdout
    }

    /// Whether a deployment is staged.
    pub fn is_staged(&self) -> bool {
        self.path("run/ostree/staged-deployment").exists()
    }

    /// Shuts down: `ostree-finalize-staged.service` runs where something is staged, and says what it said. Then
    /// nothing of `/run` is left.
    pub fn shut_down(&self) -> Option<Outcome> {
        let bound = self.is_staged().then(|| self.run(["flameholder", "bind"]));
        self.power_cut();
        bound
    }

    /// Nothing of `/run` is left. What was written is: this is about what ran, not about the disk.
    pub fn power_cut(&self) {
        fs::remove_dir_all(self.path("run")).unwrap();
        fs::create_dir(self.path("run")).unwrap();
    }

    /// Boots what boots by default, as far as there are units for it.
    pub fn boot(&self) -> Boot {
        self.boot_entry(0)
    }

    /// The same where somebody chooses another entry at the boot menu.
    pub fn boot_entry(&self, number: usize) -> Boot {
        self.start(number);
        let activate = self.run(["flameholder", "activate"]);
        let [recover, settle] = ["recover", "confirm-boot"].map(|verb| self.run(["flameholder", verb]));
        Boot { activate, recover, settle }
    }

    /// Boots an entry as far as the first unit: nothing of the product ran yet.
    pub fn start(&self, number: usize) {
        let entry = self.entries().remove(number);
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
        fs::write(self.path("kernel/boot_id"), boot_id).unwrap();
        let line =
            format!("BOOT_IMAGE=/ostree/vmlinuz {} ostree={}\n", entry.arguments.join(" "), entry.link);
        fs::write(self.path("kernel/cmdline"), line).unwrap();
        for directory in ["run/programs", "run/media", "run/ostree"] {
            fs::create_dir_all(self.path(directory)).unwrap();
        }
        fs::write(self.path("run/ostree-booted"), "").unwrap();
        // What is healthy at the first look is settled then.
        fs::create_dir_all(self.path("run/flameholder/config.d")).unwrap();
        fs::write(self.path("run/flameholder/config.d/test.toml"), "[boot-check]\nsteady = 0\n").unwrap();
        *self.booted.borrow_mut() = entry;
    }

    /// Shuts down and boots, with nothing out of order.
    pub fn reboot(&self) -> Boot {
        if let Some(bound) = self.shut_down() {
            assert_eq!(bound.code, Some(0), "{bound:?}");
        }
        self.boot().ensure_fine()
    }

    /// Shuts down and boots, whatever the units of the boot say.
    pub fn reboot_as_it_is(&self) -> Boot {
        self.shut_down();
        self.boot()
    }

    /// `flameholder apply` as far as it goes here: what needs a reboot is armed, and nobody is there to be asked
    /// for one.
    pub fn apply(&self, config: &str, image: Option<&str>) -> Outcome {
        let image: Vec<&str> = image.iter().flat_map(|image| ["--os-image", image]).collect();
        self.run([vec!["flameholder", "apply", "--desired", config], image].concat())
    }

    /// The same where it has to be armed.
    pub fn arm(&self, config: &str, image: Option<&str>) {
        let outcome = self.apply(config, image);
        ensure_asked(&outcome);
        assert!(self.is_staged(), "{outcome:?}");
    }

    /// Brings it to the generation, over a reboot.
    pub fn update(&self, config: &str, image: Option<&str>) -> Boot {
        self.arm(config, image);
        self.reboot()
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.must(["flameholder", "status", "-o", "json"])).unwrap()
    }

    /// The keys that open the account of `core`.
    pub fn core_keys(&self) -> String {
        self.read_var("home/core/.ssh/authorized_keys.d/ignition").expect("keys of core")
    }

    /// `verify` finds nothing.
    pub fn ensure_whole(&self) {
        let verified = self.run(["flameholder", "verify"]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
}

/// It got as far as asking for the reboot.
pub fn ensure_asked(outcome: &Outcome) {
    let is_asked = outcome.stderr.contains("rebooting: logind cannot be reached");
    assert!(outcome.code == Some(1) && is_asked, "{outcome:?}");
}

/// The record of the generation that an entry boots.
pub fn record(entry: &Entry) -> Value {
    serde_json::from_slice(&fs::read(entry.at("etc/flameholder/generation")).unwrap()).unwrap()
}

/// A host that runs the generation of this text, on version 2 of the OS.
pub fn settled(text: &str) -> Host {
    let host = Host::install(Os::new(1));
    let (config, image) = (host.config(whole(text).json()), host.image(&Os::new(2)));
    host.update(&config, Some(&image));
    host
}
