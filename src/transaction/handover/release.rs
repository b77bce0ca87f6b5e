//! Giving a host back: what runs is the machine-config-daemon's again, as it is.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::activation::ACTIVE;
use crate::core::generation::{RECORD, Record};
use crate::core::held::HELD;
use crate::core::host_config::HostConfig;
use crate::core::installation::DAEMON_ENVIRONMENT;
use crate::core::journal::Scope;
use crate::core::limits;
use crate::core::managed;
use crate::core::names::ManagedPath;
use crate::core::orig::{self, NOORIG, ORIG};
use crate::core::settings::DriftPolicy;
use crate::core::steps::Step;
use crate::core::tree::Node;
use crate::host::booted::Booted;
use crate::host::lock::Lock;
use crate::host::service_port::NoServices;
use crate::host::{Root, boot};
use crate::os::Sysroot;
use crate::transaction::current::Current;
use crate::transaction::live::{self, Change};
use crate::transaction::own_files::OwnFiles;
use crate::transaction::{TransactionError, labels, pending, store, sysroot, tree};

use super::{HandoverError, ensure_daemon_gone, root, shipped};

/// What to do about a host that is not as it should be.
const WAY_OUT: &str =
    "put that back, or apply the configuration again; the machine-config-daemon would refuse the host";

/// Takes the record away, and leaves what the machine-config-daemon goes by. Returns the configuration's name; `None`
/// where nothing of ours runs.
pub fn release(os: &mut dyn Sysroot, booted: &Booted) -> Result<Option<String>, TransactionError> {
    ensure_daemon_gone()?;
    let root = root()?;
    let _lock = Lock::take(&root)?;
    let boot_id = boot::boot_id();
    tree::settle_first(&root, &boot_id)?;
    if let Some(pending) = pending::load(&root)? {
        return Err(HandoverError::Pending(pending.generation().to_owned()).into());
    }
    let current = Current::load(&root)?;
    let (Some(record), Some(configuration)) = (&current.record, &current.configuration) else {
        return Ok(None);
    };
    ensure_fit(os, record, booted, &configuration.host)?;
    let mut files = OwnFiles::after(&root, Vec::new());
    give_originals(&root, &mut files, &configuration.host, &current)?;
    let mut steps = files.steps;
    steps.extend(store::prune(&root, &BTreeMap::new())?);
    for path in [ACTIVE, HELD, DAEMON_ENVIRONMENT, RECORD].map(ManagedPath::constant) {
        if root.exists(&path)? {
            steps.push(Step::Remove { path });
        }
    }
    let change = Change {
        current: Some(&record.generation),
        target: None,
        boot_id: &boot_id,
        scope: Scope::Deployment,
        steps: &steps,
        labels: &labels::of_steps(&root, &steps, &BTreeMap::new())?,
        actions: &[],
    };
    live::apply(&root, &NoServices, change)?;
    Ok(Some(record.config.clone()))
}

/// Whether the machine-config-daemon would find everything in order.
fn ensure_fit(
    os: &mut dyn Sysroot,
    record: &Record,
    booted: &Booted,
    host: &HostConfig,
) -> Result<(), TransactionError> {
    if !record.names(&booted.deployment) {
        return Err(TransactionError::Foreign(booted.deployment.to_string()));
    }
    if let Some((path, _)) = host.files.iter().find(|(_, file)| !file.append.is_empty()) {
        return Err(HandoverError::Appended(path.to_string()).into());
    }
    let verified = sysroot::verify_running(os)?;
    let counting = verified.deviations.into_iter().filter(|found| found.policy != DriftPolicy::Ignore);
    let deviations: Vec<_> = counting.map(|found| found.drift).collect();
    if deviations.is_empty() {
        return Ok(());
    }
    Err(HandoverError::Deviates { config: record.config.clone(), deviations, way_out: WAY_OUT }.into())
}

/// Copies of what stood where the configuration writes, and stamps where nothing did; as the machine-config-daemon would
/// have made them. It stamps files only.
fn give_originals(
    root: &Root,
    files: &mut OwnFiles<'_>,
    host: &HostConfig,
    current: &Current,
) -> Result<(), TransactionError> {
    let ours = current.remembered().originals;
    let mut expected = BTreeSet::new();
    for path in managed::written_paths(host) {
        let (copy, stamp) = (orig::copy_of(&path), orig::stamp_of(&path));
        if ours.contains(&path) {
            let original = Record::original_of(&path);
            files.make_parents(&copy)?;
            files.extend([
                Step::Preserve { path: original.clone(), original: copy.clone() },
                Step::Remove { path: original },
            ]);
            expected.insert(copy);
        } else if keep_shipped(root, files, &path, &copy)? {
            expected.insert(copy);
        } else if host.files.contains_key(&path) {
            files.write(stamp.clone(), Vec::new(), 0o644)?;
            expected.insert(stamp);
        }
    }
    for top in [ORIG, NOORIG].map(ManagedPath::constant) {
        let stale = leaves(root, &top)?.into_iter().filter(|path| !expected.contains(path));
        files.extend(stale.map(|path| Step::Remove { path }));
    }
    Ok(())
}

/// Keeps what the image ships at `path`, where it does.
fn keep_shipped(
    root: &Root,
    files: &mut OwnFiles<'_>,
    path: &ManagedPath,
    copy: &ManagedPath,
) -> Result<bool, TransactionError> {
    let Some(shipped) = shipped(path) else { return Ok(false) };
    match root.node(&shipped)? {
        Node::File { attributes, .. } => {
            let contents = root.read(&shipped, limits::INFLATED_BYTES)?.unwrap_or_default();
            files.write(copy.clone(), contents, attributes.mode)?;
        }
        Node::Symlink { target, .. } => files.link(copy.clone(), &target)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// All files and links below `directory`.
fn leaves(root: &Root, directory: &ManagedPath) -> Result<Vec<ManagedPath>, TransactionError> {
    let mut found = Vec::new();
    for path in root.list(directory)?.iter().map(|name| directory.join(name)) {
        match root.node(&path)? {
            Node::Directory { .. } => found.extend(leaves(root, &path)?),
            Node::File { .. } | Node::Symlink { .. } => found.push(path),
            _ => {}
        }
    }
    Ok(found)
}
