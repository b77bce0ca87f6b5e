//! The agent's own settings, read from TOML fragments in `config.d` directories.

pub mod boot_check;
pub mod disruption;
pub mod drain;
pub mod hooks;
pub mod image;
pub mod limits;
pub mod metrics;
pub mod reboot;
pub mod reboot_lock;
pub mod reboot_window;
pub mod server_access;
pub mod server_url;
pub mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::core::config::host_config::UNIT_DIRECTORY;
use crate::core::config::settings::boot_check::HealthPolicy;
use crate::core::config::settings::disruption::DisruptionSettings;
use crate::core::config::settings::drain::DrainSettings;
use crate::core::config::settings::hooks::HookSettings;
use crate::core::config::settings::image::ImageSettings;
use crate::core::config::settings::limits::LimitSettings;
use crate::core::config::settings::metrics::MetricsSettings;
use crate::core::config::settings::reboot::RebootSettings;
use crate::core::config::settings::reboot_lock::LockSettings;
use crate::core::config::settings::source::SourceSettings;
use crate::core::values::names::ManagedPath;
use crate::core::values::nearest_name::nearest;
use crate::core::values::paths::{
    CURRENT_CONFIG, CURRENT_IMAGE, DAEMON_ENVIRONMENT, ORIGINALS, ORIGINALS_OUTSIDE_ETC, RECORD,
};
use crate::core::values::refusal::TextPlace;

/// Directories of the fragments. A file in a later directory replaces one of the same name in an earlier.
pub const FRAGMENT_DIRECTORIES: [&str; 3] =
    ["/usr/lib/flameholder/config.d", VOLATILE_FRAGMENTS, LOCAL_FRAGMENTS];

/// Directory of the fragments of configs and of the host.
pub const LOCAL_FRAGMENTS: &str = "/etc/flameholder/config.d";

/// Directory of the fragments that last until a reboot.
pub const VOLATILE_FRAGMENTS: &str = "/run/flameholder/config.d";

/// Suffix of a fragment's file name; other files are ignored.
const FRAGMENT_SUFFIX: &str = ".toml";

/// Part of the names of the tables with the reboot policy.
const REBOOT: &[u8] = b"reboot";

/// Return true if a file of this name is a fragment. Hidden ones, such as those of an editor, are none.
#[must_use]
pub fn is_fragment_name(name: &str) -> bool {
    name.ends_with(FRAGMENT_SUFFIX) && !name.starts_with('.')
}

/// Return true for the path of a fragment.
#[must_use]
pub fn is_fragment(path: &ManagedPath) -> bool {
    let is_in_directory = path.parent().is_some_and(|parent| FRAGMENT_DIRECTORIES.contains(&parent.as_str()));
    is_in_directory && is_fragment_name(path.file_name())
}

/// One fragment's path and content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentFile {
    pub path: ManagedPath,
    pub bytes: Vec<u8>,
}

/// Drift policy of a path: the reaction to a difference between the disk and the record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriftPolicy {
    /// List the path; `verify` exits with 2, and the daemon becomes `Drifted`.
    #[default]
    Report,
    /// List the path; `verify --repair` and the daemon restore it.
    Repair,
    /// List a file whose content differs, without effect on exit code and phase; an update merges the local changes with
    /// the desired content. Below `/etc` only, and neither units nor the agent's settings.
    Merge,
    /// List the path under a heading of its own, without effect on exit code and phase.
    Ignore,
}

impl DriftPolicy {
    /// The spelling in fragments and documents.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Repair => "repair",
            Self::Merge => "merge",
            Self::Ignore => "ignore",
        }
    }
}

/// Drift policies by path, with a default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DriftPolicies {
    default: DriftPolicy,
    paths: BTreeMap<ManagedPath, DriftPolicy>,
}

impl DriftPolicies {
    /// Return true if a path can have the policy `merge`.
    #[must_use]
    pub fn merges_any(&self) -> bool {
        self.default == DriftPolicy::Merge || self.paths.values().any(|policy| *policy == DriftPolicy::Merge)
    }

    /// The policy for drift at `path`: that of the longest listed path that is `path` or a directory above
    /// it.
    ///
    /// Drift of the record itself is never ignored: all other drift is measured against the record, so a
    /// setting that hides the record would hide everything.
    #[must_use]
    pub fn of(&self, path: &ManagedPath) -> DriftPolicy {
        let mut listed = std::iter::once(path.clone()).chain(path.ancestors());
        let listed = listed.find_map(|path| self.paths.get(&path).copied());
        match listed.unwrap_or(self.default) {
            DriftPolicy::Ignore | DriftPolicy::Merge if is_of_the_record(path) => DriftPolicy::Report,
            DriftPolicy::Merge if unmergeable(path).is_some() => DriftPolicy::Report,
            policy => policy,
        }
    }
}

/// Return the reason for which local changes at `path` are never merged, whatever the policy.
fn unmergeable(path: &ManagedPath) -> Option<&'static str> {
    // Elsewhere, files are written at the boot of their generation, when no operator can resolve a conflict.
    if !path.is_within("/etc") {
        return Some("is for paths below /etc");
    }
    // A merged unit would have other `[Install]` lines than the config, whose links are compared.
    if path.is_within(UNIT_DIRECTORY) {
        return Some("is not for units; a drop-in holds the local changes of a unit");
    }
    // Lines of both sides together can be a fragment that cannot be used.
    let is_fragment_place = FRAGMENT_DIRECTORIES.iter().any(|directory| path.is_within(directory));
    is_fragment_place.then_some("is not for the agent's settings; a further fragment holds the local ones")
}

fn is_of_the_record(path: &ManagedPath) -> bool {
    let tops = [RECORD, CURRENT_CONFIG, CURRENT_IMAGE, ORIGINALS, ORIGINALS_OUTSIDE_ETC];
    tops.iter().any(|top| path.is_within(top))
}

/// The settings of all fragments together; absent ones have their defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    pub drift: DriftPolicies,
    pub boot_check: HealthPolicy,
    pub disruption: DisruptionSettings,
    pub source: SourceSettings,
    pub image: ImageSettings,
    pub reboot: RebootSettings,
    pub reboot_lock: LockSettings,
    pub drain: DrainSettings,
    pub hooks: HookSettings,
    pub metrics: MetricsSettings,
    pub limits: LimitSettings,
}

impl Settings {
    /// Parse and overlay `fragments`, later ones over earlier ones. Faults of all fragments are reported
    /// together, the first of each: any further fault in the same file may only be a consequence.
    pub fn of(fragments: &[FragmentFile]) -> Result<Self, SettingsError> {
        let (mut settings, mut faults) = (Self::default(), Vec::new());
        for file in fragments {
            match Fragment::parse(&file.bytes) {
                Ok(fragment) => settings.overlay(fragment),
                Err((at, reason)) => faults.push(Fault::at(file, &at, reason)),
            }
        }
        if faults.is_empty() { Ok(settings) } else { Err(SettingsError(faults)) }
    }

    fn overlay(&mut self, fragment: Fragment) {
        let DriftFragment { default, path } = fragment.drift;
        self.drift.default = default.unwrap_or(self.drift.default);
        self.drift.paths.extend(path.into_iter().map(|item| (item.path.into_inner(), item.policy)));
        fragment.boot_check.overlay(&mut self.boot_check);
        fragment.disruption.overlay(&mut self.disruption);
        fragment.source.overlay(&mut self.source);
        fragment.image.overlay(&mut self.image);
        fragment.reboot.overlay(&mut self.reboot);
        fragment.reboot_lock.overlay(&mut self.reboot_lock);
        fragment.drain.overlay(&mut self.drain);
        fragment.hooks.overlay(&mut self.hooks);
        fragment.metrics.overlay(&mut self.metrics);
        fragment.limits.overlay(&mut self.limits);
    }
}

/// The TOML of one fragment; absent settings stay as earlier fragments set them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Fragment {
    drift: DriftFragment,
    boot_check: boot_check::BootCheckFragment,
    disruption: disruption::DisruptionFragment,
    source: source::SourceFragment,
    image: ImageSettings,
    reboot: reboot::RebootFragment,
    reboot_lock: reboot_lock::LockFragment,
    drain: drain::DrainFragment,
    hooks: hooks::HookFragment,
    metrics: MetricsSettings,
    limits: LimitSettings,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DriftFragment {
    default: Option<DriftPolicy>,
    #[serde(default)]
    path: Vec<PathFragment>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathFragment {
    path: Spanned<ManagedPath>,
    policy: DriftPolicy,
}

impl Fragment {
    /// Parse a fragment; an error comes with its byte range in the file.
    fn parse(bytes: &[u8]) -> Result<Self, (Range<usize>, String)> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let at = error.valid_up_to();
            (at..at, "the file is not UTF-8 from here on".to_owned())
        })?;
        let fragment: Self = toml::from_str(text)
            .map_err(|error| (error.span().unwrap_or_default(), with_nearest(error.message())))?;
        let mut seen = BTreeSet::new();
        for item in &fragment.drift.path {
            let merged = Some(item.path.get_ref()).filter(|_| item.policy == DriftPolicy::Merge);
            if let Some(reason) = merged.and_then(unmergeable) {
                return Err((
                    item.path.span(),
                    format!("{}: the policy `merge` {reason}", item.path.get_ref()),
                ));
            }
            if !seen.insert(item.path.get_ref()) {
                let reason = format!("duplicate path {}; list it once per file", item.path.get_ref());
                return Err((item.path.span(), reason));
            }
        }
        if let Some(duplicate) = fragment.disruption.duplicate() {
            return Err(duplicate);
        }
        if let Some(name) = fragment.source.relative_directory() {
            return Err((name.span(), format!("{} is not absolute", name.get_ref())));
        }
        Ok(fragment)
    }
}

/// Spell a message of the TOML parser in one line. Of an unknown key, it lists all that are accepted: name the nearest.
fn with_nearest(message: &str) -> String {
    let line = message.replace('\n', ", ");
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = names.next().filter(|_| message.starts_with("unknown field"));
    match unknown.and_then(|unknown| nearest(unknown, names)) {
        Some(nearest) => format!("{line}; did you mean `{nearest}`?"),
        None => line,
    }
}

/// The first error in one fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    /// Fragment, or its directory if it has a name that no path can have.
    path: ManagedPath,
    place: Option<FaultPlace>,
    reason: String,
    /// True if the fragment mentions reboots.
    mentions_reboots: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FaultPlace {
    at: TextPlace,
    /// Key in that line; `None` if the line sets none.
    key: Option<String>,
}

impl Fault {
    /// Compute line and column, both counted from 1; columns count characters.
    fn at(file: &FragmentFile, at: &Range<usize>, reason: String) -> Self {
        let before = file.bytes.get(..at.start).unwrap_or(&file.bytes);
        let line = before.split(|byte| *byte == b'\n').count();
        let last = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let column = String::from_utf8_lossy(last).chars().count() + 1;
        let whole = file.bytes.split(|byte| *byte == b'\n').nth(line - 1).unwrap_or_default();
        let whole = String::from_utf8_lossy(whole);
        let key = whole.split_once('=').map(|(key, _)| key.trim().to_owned());
        let place = TextPlace { line: line as u64, column: column as u64 };
        // For any fault in it: an unusable policy must not count as none.
        let mentions_reboots = file.bytes.windows(REBOOT.len()).any(|part| part == REBOOT);
        Self { path: file.path.clone(), place: Some(FaultPlace { at: place, key }), reason, mentions_reboots }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(FaultPlace { at: TextPlace { line, column }, .. }) => {
                write!(f, "{}:{line}:{column}: {}", self.path, self.reason)
            }
            None => write!(f, "{}: {}", self.path, self.reason),
        }
    }
}

/// The faults of all unusable fragments. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SettingsError(Vec<Fault>);

impl SettingsError {
    /// Iterate over the faults: the fragment, and the place in it with key and reason.
    pub fn faults(&self) -> impl Iterator<Item = (&ManagedPath, String)> {
        self.0.iter().map(|Fault { path, place, reason, .. }| {
            let place = place.as_ref().map(|FaultPlace { at, key }| {
                let key = key.as_ref().map_or_else(String::new, |key| format!(", key `{key}`"));
                format!("{at}{key}: ")
            });
            (path, place.unwrap_or_default() + reason)
        })
    }

    /// Return true if the faulty fragments may hold a reboot policy.
    #[must_use]
    pub fn may_hold_reboot_policy(&self) -> bool {
        self.0.iter().any(|fault| fault.mentions_reboots)
    }

    /// The error of settings without a source of the desired config, where the daemon needs one from there.
    #[must_use]
    pub fn without_source() -> Self {
        let reason = "names no source of the desired config, and no fragment does any longer: the daemon could not \
            start again; keep `desired` in the table [source]";
        let path = ManagedPath::constant(DAEMON_ENVIRONMENT);
        Self(vec![Fault { path, place: None, reason: reason.to_owned(), mentions_reboots: false }])
    }

    /// Add the fragments with names that no path can have, each with its directory.
    pub fn with_unusable_names(
        parsed: Result<Settings, Self>,
        unusable: Vec<(ManagedPath, String)>,
    ) -> Result<Settings, Self> {
        let fault = |(path, name): (ManagedPath, String)| Fault {
            path,
            place: None,
            reason: format!("the name of the file `{name}` is not plain text; rename or remove it"),
            mentions_reboots: false,
        };
        let unusable: Vec<Fault> = unusable.into_iter().map(fault).collect();
        match parsed {
            Ok(settings) if unusable.is_empty() => Ok(settings),
            Ok(_) => Err(Self(unusable)),
            Err(Self(faults)) => Err(Self(faults.into_iter().chain(unusable).collect())),
        }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("reading the agent's own settings (see flameholder.toml(5)):")?;
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

#[cfg(test)]
mod tests;
