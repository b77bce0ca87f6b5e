//! Judgement of a disk: the generation that it boots, which has to be complete.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vm::Host;
use vm::writelog::{BootedSystem, Side, Tree};

use super::expected::Expected;
use super::state;
use crate::change::Change;
use crate::prepared::{faulty, one, three, two};

/// A generation of a host: its ID and expected state.
#[derive(Debug, Clone)]
pub struct Generation {
    pub id: String,
    pub expected: Expected,
}

/// A judge of disks between two systems.
pub trait DiskJudge {
    /// Return the system that the disk boots.
    ///
    /// # Errors
    /// The disk boots an incomplete system, a mixture of both, or a third one.
    fn side(&mut self, booted: &BootedSystem) -> Result<Side>;

    /// Return true if the change is complete on the last judged disk.
    fn is_complete(&self) -> bool;
}

/// Judge of the disks of one change.
#[derive(Debug, Clone)]
pub struct ChangeJudge {
    pub old: Generation,
    pub new: Generation,
    /// Number of judged states that boot the new system.
    new_states: usize,
    is_complete: bool,
}

impl ChangeJudge {
    /// Create the judge for a host on which the change is staged, or about to be staged.
    pub fn of(change: Change, host: &mut Host) -> Result<Self> {
        let (one, two, three) =
            (Expected::new(&one(), 1), Expected::new(&two(host), 2), Expected::new(&three(), 1));
        let faulty = Expected::new(&faulty(host), 3);
        let (old, new) = match change {
            Change::Image => (one, two),
            Change::Files => (one, three),
            Change::Rollback => (two, one),
            Change::AutomaticRollback => (faulty, one),
        };
        let line = host.run_ok("cat /proc/cmdline")?;
        let booted = line.split_whitespace().find_map(|word| word.strip_prefix("flameholder.generation="));
        let pending = host.run_ok("head -n 1 /var/lib/flameholder/pending | cut -d' ' -f2-")?;
        // Before the change is staged, the new generation has no ID, and no disk may boot it.
        let pending: Value = serde_json::from_str(&pending).unwrap_or_default();
        // In an automatic rollback the pending record is that of the faulty generation; its `replaces` names
        // the generation that boots again.
        let name = if change == Change::AutomaticRollback {
            &pending["replaces"]
        } else {
            &pending["record"]["generation"]
        };
        let pending = name.as_str().unwrap_or("none");
        let booted = booted.context("the kernel command line names no generation")?;
        let old = Generation { id: booted.to_owned(), expected: old };
        let new = Generation { id: pending.to_owned(), expected: new };
        Ok(Self { old, new, new_states: 0, is_complete: false })
    }
}

impl DiskJudge for ChangeJudge {
    fn side(&mut self, booted: &BootedSystem) -> Result<Side> {
        let id =
            booted.entry.argument("flameholder.generation").context("the boot entry names no generation")?;
        let (side, generation, other) = match id {
            _ if id == self.old.id => (Side::Old, &self.old, &self.new),
            _ if id == self.new.id => (Side::New, &self.new, &self.old),
            _ => anyhow::bail!("the boot entry names {id}, which is neither the old nor the new generation"),
        };
        let mismatches = mismatches(generation, other, booted)?;
        ensure!(
            mismatches.is_empty(),
            "a mixture: it boots the {side:?} system, {}, with {} mismatches; the first are: {}",
            generation.expected.config,
            mismatches.len(),
            mismatches.iter().take(3).cloned().collect::<Vec<_>>().join("; ")
        );
        state::ensure_var_sound(booted, side, &self.old, &self.new)
            .with_context(|| format!("it boots the {side:?} system"))?;
        if side == Side::New {
            // Comparing the kernels takes longer than all other checks: sample them.
            if self.new_states < 6 || self.new_states.is_multiple_of(50) {
                ensure_bootable(booted)?;
            }
            self.new_states += 1;
            // The change is complete once the new generation has booted and no record is pending.
            let has_booted = state::last_booted(&booted.var)? == self.new.id;
            self.is_complete = has_booted && !booted.var.has("lib/flameholder/pending")?;
        }
        Ok(side)
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }
}

fn mismatches(generation: &Generation, other: &Generation, booted: &BootedSystem) -> Result<Vec<String>> {
    let (expected, deployment) = (&generation.expected, &booted.deployment);
    let mut found = expected.differences(&other.expected, deployment, true);
    found.extend(expected.argument_differences(&other.expected, &booted.entry));
    let version = deployment.text("usr/lib/os-version")?.unwrap_or_default();
    if version.trim() != expected.version.to_string() {
        found.push(format!("the OS is version {version:?}"));
    }
    // libostree merges changed files of the image, and local changes of `/etc`.
    let shipped = deployment.text("etc/os/changed")?.unwrap_or_default();
    if shipped.trim() != format!("version {}", expected.version) {
        found.push(format!("/etc/os/changed is {shipped:?}"));
    }
    if deployment.text("etc/local")?.as_deref() != Some("local\n") {
        found.push("/etc/local lacks its local change".to_owned());
    }
    found.extend(record_mismatches(generation, deployment)?);
    Ok(found)
}

/// Return the mismatches of the record, and of the config stored beside it.
pub fn record_mismatches(generation: &Generation, deployment: &Tree) -> Result<Vec<String>> {
    let (expected, mut found) = (&generation.expected, Vec::new());
    let record = state::document(deployment, "etc/flameholder/generation")?;
    let bound_to = &record["deployment"];
    let deployment_name =
        format!("{}.{}", bound_to["commit"].as_str().unwrap_or_default(), bound_to["serial"]);
    if record["generation"] != generation.id
        || !deployment.path().ends_with(&format!("/deploy/{deployment_name}"))
    {
        found.push(format!("the record names {} and {deployment_name}", record["generation"]));
    }
    let config: Value = state::document(deployment, "etc/machine-config-daemon/currentconfig")?;
    if record["config"] != expected.config || config["metadata"]["name"] != expected.config {
        found.push(format!("the recorded configuration is {}", record["config"]));
    }
    Ok(found)
}

/// Check that kernel and initial RAM disk equal those of the deployment.
fn ensure_bootable(booted: &BootedSystem) -> Result<()> {
    let modules = booted.deployment.names("usr/lib/modules")?;
    let modules = format!("usr/lib/modules/{}", modules.first().context("the deployment has no kernel")?);
    let [initrd] = booted.entry.initrds.as_slice() else {
        anyhow::bail!("expected one initial RAM disk, found {:?}", booted.entry.initrds)
    };
    for (path, name) in [(&booted.entry.kernel, "vmlinuz"), (initrd, "initramfs.img")] {
        let inside = path.strip_prefix("/boot/").unwrap_or(path);
        let is_same = booted.boot.read(inside)? == booted.deployment.read(&format!("{modules}/{name}"))?;
        ensure!(is_same, "{path} is not the deployment's {name}");
    }
    Ok(())
}
