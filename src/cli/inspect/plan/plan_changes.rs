//! Changes of a plan as rows of text: files, directories, links and units by effect, and values of the OS.

use std::collections::BTreeMap;
use std::fmt;

use crate::cli::inspect::etc_diff;
use crate::cli::output::styled_text::TextRole;
use crate::cli::output::text_diff::ContentChange;
use crate::cli::output::words::counted;
use crate::core::config::host_config::{FileOwner, HostConfig, OwnerRef, UnitSpec};
use crate::core::config::managed_files::unit_path;
use crate::core::plan::Plan;
use crate::core::plan::diff::ChangedItem;
use crate::core::plan::steps::disk_effect::DiskEffect;
use crate::core::values::image::redact_credentials;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::ChangeKind;

/// Sign at the start of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowSign {
    Added,
    Changed,
    Removed,
    /// As desired already.
    Same,
}

impl RowSign {
    pub(crate) fn of(change: ChangeKind) -> Self {
        match change {
            ChangeKind::Add => Self::Added,
            ChangeKind::Modify => Self::Changed,
            ChangeKind::Remove => Self::Removed,
        }
    }

    pub(crate) fn styled(self) -> (TextRole, &'static str) {
        match self {
            Self::Added => etc_diff::sign(ChangeKind::Add),
            Self::Changed => etc_diff::sign(ChangeKind::Modify),
            Self::Removed => etc_diff::sign(ChangeKind::Remove),
            Self::Same => (TextRole::Faint, "="),
        }
    }
}

/// Changed path or unit.
#[derive(Debug)]
pub(crate) struct ChangeRow {
    pub(crate) sign: RowSign,
    pub(crate) name: String,
    /// Its new state, or the respects in which it differs.
    pub(crate) note: String,
}

impl ChangeRow {
    pub(crate) fn new(sign: RowSign, name: String, note: String) -> Self {
        Self { sign, name, note }
    }
}

/// Number of rows by sign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChangeCount {
    pub(crate) added: usize,
    pub(crate) changed: usize,
    pub(crate) removed: usize,
    pub(crate) same: usize,
}

impl ChangeCount {
    pub(crate) fn of<'a>(rows: impl IntoIterator<Item = &'a ChangeRow>) -> Self {
        let mut count = Self::default();
        for row in rows {
            *match row.sign {
                RowSign::Added => &mut count.added,
                RowSign::Changed => &mut count.changed,
                RowSign::Removed => &mut count.removed,
                RowSign::Same => &mut count.same,
            } += 1;
        }
        count
    }

    pub(crate) fn is_any(self) -> bool {
        self != Self::default()
    }
}

impl fmt::Display for ChangeCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.added, "added"),
            (self.changed, "changed"),
            (self.removed, "removed"),
            (self.same, "already so"),
        ];
        let counts = counts.iter().filter(|(number, _)| *number > 0);
        let counts: Vec<String> = counts.map(|(number, what)| format!("{number} {what}")).collect();
        f.write_str(&counts.join(", "))
    }
}

/// All changes of a plan.
#[derive(Debug)]
pub(crate) struct ChangeSections {
    /// Paths and units, by label.
    pub(crate) rows: Vec<(&'static str, Vec<ChangeRow>)>,
    /// Values that come and go, by label.
    pub(crate) values: Vec<(&'static str, Vec<(RowSign, String)>)>,
    pub(crate) count: ChangeCount,
}

impl ChangeSections {
    pub(crate) fn of(
        plan: &Plan,
        contents: &BTreeMap<ManagedPath, ContentChange>,
        desired: &HostConfig,
    ) -> Self {
        let diff = &plan.diff;
        let path_row = |path: &ManagedPath, changed: &ChangedItem, added: Option<String>| {
            let on_disk = plan.tree.as_ref().and_then(|tree| tree.effect_on(path));
            row(path.as_str(), changed, added, contents.get(path), on_disk)
        };
        let files = diff.files.iter().map(|(path, changed)| {
            let file = desired.files.get(path);
            let added = file.map(|file| {
                let size = counted(file.with_appended().len(), "byte");
                format!("{}, {size}", attributes(file.mode, &file.owner))
            });
            path_row(path, changed, added)
        });
        let directories = diff.directories.iter().map(|(path, changed)| {
            let directory = desired.directories.get(path);
            path_row(path, changed, directory.map(|directory| attributes(directory.mode, &directory.owner)))
        });
        let links = diff.links.iter().map(|(path, changed)| {
            let link = desired.links.get(path);
            path_row(path, changed, link.map(|link| format!("to {}", link.target)))
        });
        let units = diff.units.iter().map(|(name, changed)| {
            let added = desired.units.get(name).map(unit_state);
            row(name, changed, added, contents.get(&unit_path(name)), None)
        });
        let mut rows = vec![
            ("directories", directories.collect::<Vec<_>>()),
            ("files", files.collect()),
            ("links", links.collect()),
            ("units", units.collect()),
        ];
        for (_, rows) in &mut rows {
            rows.sort_by_key(|row| row.sign);
        }
        rows.retain(|(_, rows)| !rows.is_empty());
        let values = values(plan);
        let mut count = ChangeCount::of(rows.iter().flat_map(|(_, rows)| rows));
        count.changed += values.len();
        Self { rows, values, count }
    }
}

/// Describe a changed item. `added` describes it where the config brings it.
fn row(
    name: &str,
    changed: &ChangedItem,
    added: Option<String>,
    contents: Option<&ContentChange>,
    on_disk: Option<DiskEffect>,
) -> ChangeRow {
    let mut note = match changed.change {
        ChangeKind::Add => added.unwrap_or_default(),
        ChangeKind::Modify => changed.reasons.join(", "),
        ChangeKind::Remove => String::new(),
    };
    if let Some(contents) = contents {
        note.push_str(&format!(" ({})", contents.summary()));
    }
    let sign = match on_disk {
        Some(DiskEffect::Unchanged) => RowSign::Same,
        Some(DiskEffect::ReplacesLocal) => {
            note.push_str("; replaces a local file, which is kept");
            RowSign::Changed
        }
        Some(DiskEffect::ChangesAttributes) if changed.change == ChangeKind::Add => {
            note.push_str("; changes mode or owner of an existing directory, for good");
            RowSign::Changed
        }
        Some(DiskEffect::Changed | DiskEffect::ChangesAttributes) | None => RowSign::of(changed.change),
    };
    ChangeRow::new(sign, name.to_owned(), note)
}

/// Mode, and the owner where that is not root.
pub(crate) fn attributes(mode: u32, owner: &FileOwner) -> String {
    if *owner == FileOwner::default() {
        return format!("{mode:04o}");
    }
    let name = |owner: &OwnerRef| match owner {
        OwnerRef::Id(id) => id.to_string(),
        OwnerRef::Name(name) => name.clone(),
    };
    format!("{mode:04o} {}:{}", name(&owner.user), name(&owner.group))
}

pub(crate) fn unit_state(unit: &UnitSpec) -> String {
    let state = match (unit.is_masked(), unit.enabled) {
        (true, _) => "masked",
        (false, Some(true)) => "enabled",
        (false, Some(false)) => "disabled",
        (false, None) => "enabled as presets say",
    };
    match unit.drop_ins.len() {
        0 => state.to_owned(),
        1 => format!("{state}, 1 drop-in"),
        drop_ins => format!("{state}, {drop_ins} drop-ins"),
    }
}

/// Values of the OS and of the user that change.
fn values(plan: &Plan) -> Vec<(&'static str, Vec<(RowSign, String)>)> {
    let (diff, from, to) = (&plan.diff, &plan.current_os, &plan.desired_os);
    let image = |image: &Option<String>| image.as_deref().map(redact_credentials).into_iter().collect();
    let arguments = |added: &KernelArguments| {
        added.iter().map(|argument| argument.as_str().to_owned()).collect::<Vec<_>>()
    };
    let missing = |from: &[String], to: &[String]| -> Vec<String> {
        from.iter().filter(|item| !to.contains(item)).cloned().collect()
    };
    let fips = |mode: bool| vec![if mode { "on" } else { "off" }.to_owned()];
    let whole = |what: &str| vec![(RowSign::Changed, what.to_owned())];
    let rows = [
        (diff.os_image, "OS image", image(&from.image), image(&to.image)),
        (
            diff.kernel_arguments,
            "kernel arguments",
            arguments(&from.kernel_arguments.subtract(&to.kernel_arguments)),
            arguments(&to.kernel_arguments.subtract(&from.kernel_arguments)),
        ),
        (
            diff.kernel_type,
            "kernel type",
            vec![from.kernel_type.as_str().to_owned()],
            vec![to.kernel_type.as_str().to_owned()],
        ),
        (
            diff.extensions,
            "extensions",
            missing(&from.extensions, &to.extensions),
            missing(&to.extensions, &from.extensions),
        ),
        (diff.fips, "FIPS mode", fips(from.fips), fips(to.fips)),
    ];
    let changed = rows.into_iter().filter(|(is_changed, ..)| *is_changed);
    let mut values: Vec<_> = changed
        .map(|(_, label, gone, new)| {
            let gone = gone.into_iter().map(|value| (RowSign::Removed, value));
            let rows: Vec<_> = gone.chain(new.into_iter().map(|value| (RowSign::Added, value))).collect();
            (label, if rows.is_empty() { whole("the same in another order") } else { rows })
        })
        .collect();
    if diff.ssh_keys {
        values.push(("SSH keys", whole("of core")));
    }
    if diff.password {
        values.push(("password hash", whole("of core")));
    }
    values
}
