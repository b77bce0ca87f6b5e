//! Host that booted through OSTree, as far as a process can tell.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use osimage::{Os, Scratch, SysrootBuilder};
use serde_json::Value;

use crate::boot::{self, Entry};
use crate::booted::config::full_config;
use crate::booted::release::AgentRelease;
use crate::dbus::fake_pid1::FakePid1;
use crate::executables;
use crate::model::run::{Outcome, launch};

pub(crate) const STATEROOT: &str = "fedora-coreos";
/// Folder of the hosts, in memory: no test here depends on power cuts, and a flush on a disk that others use
/// takes long.
const MEMORY: &str = "/dev/shm";
pub const WORKER: &str = "flameholder-ostree";

/// Directories that systemd-tmpfiles makes on the first boot.
const TMPFILES_DIRECTORIES: [&str; 5] = ["usrlocal", "home/core", "roothome", "opt", "lib/kubelet"];

/// Disk, `/run` and kernel command line of a host.
pub struct Host {
    scratch: Scratch,
    booted: RefCell<Entry>,
}

/// Results of the units of a boot.
#[derive(Debug)]
pub struct Boot {
    pub activate: Outcome,
    pub recover: Outcome,
    pub confirm_boot: Outcome,
}

impl Boot {
    pub fn is_success(&self) -> bool {
        [&self.activate, &self.recover, &self.confirm_boot].iter().all(|outcome| outcome.code == Some(0))
    }

    /// True if a unit requested a reboot; there is no systemd to perform it.
    pub fn requests_reboot(&self) -> bool {
        let units = [&self.activate, &self.confirm_boot];
        units.iter().any(|unit| unit.code == Some(1) && unit.stderr.contains("rebooting: "))
    }

    /// Panics unless every unit succeeded.
    pub fn assert_success(self) -> Self {
        assert!(self.is_success(), "{self:?}");
        self
    }
}

impl Host {
    /// Install the OS and boot it for the first time.
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
        for directory in TMPFILES_DIRECTORIES {
            fs::create_dir_all(host.var(directory)).unwrap();
        }
        host.install_agent(AgentRelease::This);
        host.boot_kernel(0);
        host
    }

    /// Second host in exactly the present state of this one.
    pub fn copy(&self) -> Self {
        let scratch = Scratch::below(Path::new(MEMORY)).unwrap();
        let everything = format!("{}/.", self.scratch.path().display());
        let outcome = launch("cp", ["-a", &everything, scratch.path().to_str().unwrap()]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let mut booted = self.booted.borrow().clone();
        booted.root = scratch.path().join(booted.root.strip_prefix(self.scratch.path()).unwrap());
        Self { scratch, booted: RefCell::new(booted) }
    }

    /// Replace a program by the one at `original`, or remove it.
    pub fn put_program(&self, name: &str, original: Option<&Path>) {
        let (program, at) =
            (self.path("programs").join(name), self.path("programs").join(format!("{name}.at")));
        let [_, _] = [&program, &at].map(|path| fs::remove_file(path).is_ok());
        if let Some(original) = original {
            fs::write(at, original.display().to_string()).unwrap();
            fs::write(program, "").unwrap();
        }
    }

    /// Put a script first in the search path.
    pub fn put_script(&self, name: &str, text: &str) {
        self.put_program(name, None);
        let path = self.path("programs").join(name);
        // Another process writes the script: if a parallel test forked while this process has it open for
        // writing, executing it would fail with "text file busy".
        let write = "printf '%s' \"$2\" > \"$1\" && chmod 755 \"$1\"";
        let written = launch("sh", ["-c", write, "sh", path.to_str().unwrap(), text]);
        assert_eq!(written.code, Some(0), "{written:?}");
    }

    /// Remove a program of the host; the machine's own may then be found.
    pub fn remove_program(&self, name: &str) {
        self.put_program(name, None);
    }

    /// Move the worker to another name.
    pub fn rename_worker(&self, name: &str) {
        self.put_program(name, Some(&executables::worker()));
    }

    /// Move the worker back to its own name.
    pub fn restore_worker(&self) {
        self.rename_worker(WORKER);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub fn sysroot(&self) -> PathBuf {
        self.path("sysroot")
    }

    /// Path below `/var`.
    pub fn var(&self, path: &str) -> PathBuf {
        let own = self.path("var");
        if own.exists() { own.join(path) } else { self.stateroot_var().join(path) }
    }

    fn stateroot_var(&self) -> PathBuf {
        self.sysroot().join("ostree/deploy").join(STATEROOT).join("var")
    }

    /// Move `/var` out of the stateroot, as on a host that has it on a disk of its own: the stateroot's directory is empty.
    pub fn move_var_out_of_stateroot(&self) {
        fs::rename(self.stateroot_var(), self.path("var")).unwrap();
        fs::create_dir(self.stateroot_var()).unwrap();
    }

    /// Path below `/etc` of the booted deployment.
    pub fn etc(&self, path: &str) -> PathBuf {
        self.booted().root.join("etc").join(path)
    }

    /// Write a file below `/etc` as an administrator would.
    pub fn write_etc(&self, path: &str, text: &str) {
        let path = self.etc(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Text of a file below `/etc`; `None` if it does not exist.
    pub fn read_etc(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.etc(path)).ok()
    }

    /// Text of a file below `/var`; `None` if it does not exist.
    pub fn read_var(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.var(path)).ok()
    }

    /// Write an image to a folder that the host sees, and return the image's reference on the host.
    pub fn image(&self, os: &Os) -> String {
        let tag = os.version();
        osimage::write_image(os, &self.path("media/images"), Some(&tag)).unwrap();
        format!("ostree-unverified-image:oci:/run/media/images:{tag}")
    }

    /// Remove all images and configs, as if no registry could be reached.
    pub fn remove_media(&self) {
        fs::remove_dir_all(self.path("media")).unwrap();
        fs::create_dir(self.path("media")).unwrap();
    }

    /// Write a config, and return its path on the host.
    pub fn config(&self, config: &Value) -> String {
        let name = config["metadata"]["name"].as_str().unwrap();
        fs::write(self.path("media").join(name), config.to_string()).unwrap();
        format!("/run/media/{name}")
    }

    /// Boot entry of the booted deployment.
    pub fn booted(&self) -> Entry {
        self.booted.borrow().clone()
    }

    pub fn entries(&self) -> Vec<Entry> {
        boot::entries(&self.sysroot())
    }

    /// Boot entry that would boot after a power cut now.
    pub fn default(&self) -> Entry {
        self.entries().remove(0)
    }

    /// Run a program on the host to its end.
    pub fn run<A: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = A>) -> Outcome {
        let mut arguments: Vec<OsString> =
            ["--mount", "--pid", "--fork", "--kill-child"].map(OsString::from).to_vec();
        arguments.extend(self.unshare_arguments(command));
        launch("unshare", arguments)
    }

    /// Run a program that must succeed, and return its standard output.
    pub fn run_ok<A: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = A>) -> String {
        let outcome = self.run(command);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.stdout
    }

    /// Run a command of the executable as systemd runs a sandboxed service, `ostree-finalize-staged.service` for
    /// one: the process is the only one in its mount namespace, which ends when the process leaves it.
    fn run_service(&self, verb: &str) -> Outcome {
        self.run(["unshare", "--mount", "flameholder", verb])
    }

    /// True if a deployment is staged.
    pub fn is_staged(&self) -> bool {
        self.path("run/ostree/staged-deployment").exists()
    }

    /// Shut down: run `ostree-finalize-staged.service` if a deployment is staged, and return its outcome.
    /// `/run` is emptied.
    pub fn shut_down(&self) -> Option<Outcome> {
        let finalized = self.is_staged().then(|| self.run_service("finalize"));
        self.power_cut();
        finalized
    }

    /// Shut down for a soft reboot, and switch to the root of an entry. The kernel stays, with its command line and
    /// boot ID, and so does `/run`. No unit of the product has run yet.
    ///
    /// The result is systemd, which knows of `count` soft reboots as long as it is kept.
    pub fn soft_reboot_kernel(&self, number: usize, count: u32) -> FakePid1 {
        if self.is_staged() {
            self.run_service("finalize");
        }
        *self.booted.borrow_mut() = self.entries().remove(number);
        let uptime = fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        FakePid1::start(&self.path("run/systemd/private"), count, Duration::from_secs_f64(uptime))
    }

    /// Empty `/run`. Writes that were not flushed are kept: the tests here are about running processes, not
    /// about the disk.
    pub fn power_cut(&self) {
        fs::remove_dir_all(self.path("run")).unwrap();
        fs::create_dir(self.path("run")).unwrap();
    }

    /// Boot the default entry and run the units of the boot.
    pub fn boot(&self) -> Boot {
        self.boot_entry(0)
    }

    /// Boot another entry of the boot menu and run the units of the boot.
    pub fn boot_entry(&self, number: usize) -> Boot {
        self.boot_kernel(number);
        self.run_units()
    }

    /// Run the units of a boot.
    pub fn run_units(&self) -> Boot {
        let [activate, recover, confirm_boot] =
            ["activate", "recover", "confirm-boot"].map(|verb| self.run_service(verb));
        Boot { activate, recover, confirm_boot }
    }

    /// Boot an entry up to the start of the kernel: no unit of the product has run yet.
    pub fn boot_kernel(&self, number: usize) {
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
        // Each check is then the last, also on a machine that started just now, and one that passes at once is
        // confirmed at once.
        fs::create_dir_all(self.path("run/flameholder/config.d")).unwrap();
        fs::write(
            self.path("run/flameholder/config.d/00-test.toml"),
            "[boot-check]\ntimeout = 1\nsteady = 0\n",
        )
        .unwrap();
        *self.booted.borrow_mut() = entry;
    }

    /// Shut down and boot; panics if a unit fails.
    pub fn reboot(&self) -> Boot {
        if let Some(finalized) = self.shut_down() {
            assert_eq!(finalized.code, Some(0), "{finalized:?}");
        }
        self.boot().assert_success()
    }

    /// Shut down and boot, even if units fail.
    pub fn reboot_unchecked(&self) -> Boot {
        self.shut_down();
        self.boot()
    }

    /// Run `flameholder apply`: an update that needs a reboot is staged and unlocked.
    pub fn apply(&self, config: &str, image: Option<&str>) -> Outcome {
        let image: Vec<&str> = image.iter().flat_map(|image| ["--os-image", image]).collect();
        self.run([vec!["flameholder", "apply", "--desired", config], image].concat())
    }

    /// Apply an update that must need a reboot.
    pub fn stage_update(&self, config: &str, image: Option<&str>) {
        let outcome = self.apply(config, image);
        assert_unlocked(&outcome);
        assert!(self.is_staged(), "{outcome:?}");
    }

    /// Update the host with a reboot.
    pub fn update(&self, config: &str, image: Option<&str>) -> Boot {
        self.stage_update(config, image);
        self.reboot()
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.run_ok(["flameholder", "status", "-o", "json"])).unwrap()
    }

    /// Result of the daemon's observation of the host.
    pub fn observation(&self) -> Outcome {
        let request =
            r#"{"job":{"Observe":{"releases_block":false}},"profile":"native","document":0,"policy":null}"#;
        self.run(["sh", "-c", &format!("echo '{request}' | flameholder work")])
    }

    /// True if systemd would start the workload: the conditions of its drop-ins.
    pub fn workload_starts(&self) -> bool {
        !self.etc("flameholder/unconfirmed").exists() || self.path("run/flameholder/activated").exists()
    }

    /// Authorized keys of the user `core`.
    pub fn core_keys(&self) -> String {
        self.read_var("home/core/.ssh/authorized_keys.d/ignition").expect("keys of core")
    }

    /// Panics unless `verify` finds no drift.
    pub fn assert_no_drift(&self) {
        let verified = self.run(["flameholder", "verify"]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
}

/// Panics unless the command unlocked an update, which any reboot activates.
pub fn assert_unlocked(outcome: &Outcome) {
    let awaits_reboot = outcome.stdout.ends_with("reboot to activate: systemctl reboot\n");
    assert!(outcome.code == Some(0) && awaits_reboot, "{outcome:?}");
}

/// Record of the generation in the deployment of a boot entry.
pub fn record(entry: &Entry) -> Value {
    serde_json::from_slice(&fs::read(entry.at("etc/flameholder/generation")).unwrap()).unwrap()
}

/// Host with a confirmed generation with this text, on version 2 of the OS.
pub fn confirmed_host(text: &str) -> Host {
    host_confirmed_by(AgentRelease::This, text)
}

/// The same, made by a release of the agent.
pub fn host_confirmed_by(release: AgentRelease, text: &str) -> Host {
    let host = Host::install(Os::new(1));
    host.install_agent(release);
    let (config, image) = (host.config(full_config(text).json()), host.image(&Os::new(2)));
    host.update(&config, Some(&image));
    host
}
