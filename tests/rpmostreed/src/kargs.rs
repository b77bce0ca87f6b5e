//! Kernel arguments: changes start from the pending deployment, and the caller's existing arguments are
//! trusted.

use std::collections::HashMap;

use ostree_ext::gio::Cancellable;
use ostree_ext::ostree;
use zbus::zvariant::{OwnedValue, Value};

use crate::deployments::origin_of;
use crate::error::Refusal;
use crate::options::Dict;
use crate::update::{arguments_of, origin_merge, stage};
use crate::work::Worker;

/// Change of kernel arguments.
#[derive(Debug)]
pub(crate) struct KargsChange {
    existing: String,
    added: Vec<String>,
    replaced: Vec<String>,
    removed: Vec<String>,
    append_if_missing: Vec<String>,
    delete_if_present: Vec<String>,
    all: Option<String>,
    lock: bool,
    pub(crate) title: Option<String>,
}

impl KargsChange {
    pub(crate) fn of(existing: String, lists: [Vec<String>; 3], options: &Dict) -> Self {
        let [added, replaced, removed] = lists;
        Self {
            existing,
            added,
            replaced,
            removed,
            append_if_missing: options.list("append-if-missing"),
            delete_if_present: options.list("delete-if-present"),
            all: options.text("final-kernel-args"),
            lock: options.flag("lock-finalization"),
            title: options.text("initiating-command-line"),
        }
    }

    fn apply(&self) -> anyhow::Result<Vec<String>> {
        if let Some(all) = &self.all {
            return Ok(split(all));
        }
        let mut arguments = split(&self.existing);
        for wanted in &self.removed {
            let found = arguments.iter().position(|argument| argument == wanted);
            let Some(found) = found else { anyhow::bail!("No key '{wanted}' found") };
            arguments.remove(found);
        }
        for wanted in &self.replaced {
            let key = wanted.split('=').next().unwrap_or_default();
            let found = arguments.iter_mut().find(|argument| argument.split('=').next() == Some(key));
            let Some(found) = found else { anyhow::bail!("No key '{key}' found") };
            found.clone_from(wanted);
        }
        arguments.retain(|argument| !self.delete_if_present.contains(argument));
        arguments.extend(self.added.iter().cloned());
        for wanted in &self.append_if_missing {
            if !arguments.contains(wanted) {
                arguments.push(wanted.clone());
            }
        }
        Ok(arguments)
    }
}

fn split(line: &str) -> Vec<String> {
    let arguments = ostree::KernelArgs::from_string(line).to_strv();
    arguments.iter().map(ToString::to_string).filter(|argument| !argument.starts_with("ostree=")).collect()
}

pub(crate) fn carry_out(
    worker: &Worker,
    sysroot: &ostree::Sysroot,
    stateroot: &str,
    change: &KargsChange,
) -> anyhow::Result<()> {
    let arguments = change.apply()?;
    if change.all.is_none() && arguments == split(&change.existing) {
        worker.message("No changes.");
        return Ok(());
    }
    let merge = origin_merge(sysroot, stateroot)?;
    let (commit, origin) = (merge.csum().to_string(), origin_of(&merge)?);
    stage(worker, sysroot, (stateroot, &commit, &origin), &arguments, change.lock)
}

pub(crate) fn boot_config(
    deployment: &str,
    is_pending: bool,
) -> Result<HashMap<String, OwnedValue>, Refusal> {
    let sysroot = ostree::Sysroot::new_default();
    sysroot.load(Cancellable::NONE).map_err(|error| Refusal::own(error.to_string()))?;
    let all = sysroot.deployments();
    let index = match deployment {
        "" if is_pending => 0,
        "" => all.iter().position(|one| !one.is_staged()).unwrap_or(0),
        number => number.parse().map_err(|_| Refusal::own(format!("No deployment {number}")))?,
    };
    let Some(found) = all.get(index) else {
        let text = format!("Out of range deployment index {index}, expected < {}", all.len());
        return Err(Refusal::own(text));
    };
    let options = Value::from(arguments_of(found).join(" "));
    let staged = Value::from(found.is_staged());
    let owned =
        |value: Value<'_>| OwnedValue::try_from(value).map_err(|error| Refusal::own(error.to_string()));
    Ok(HashMap::from([("options".to_owned(), owned(options)?), ("staged".to_owned(), owned(staged)?)]))
}
