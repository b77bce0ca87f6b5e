//! Files and texts of a host.

use flameholder::core::config::accounts::AccountTable;
use flameholder::core::config::registries;
use flameholder::core::config::settings::{FragmentFile, Settings, SettingsError};

use flameholder::core::enablement::{
    self, EnablementLinks, PresetRules, SystemdVersion, UnitFile, UnitFiles, UnitName, UnitOperation,
};
use flameholder::core::image_policy::ImagePolicy;
use flameholder::core::values::image::ImageRef;
use flameholder::core::values::kernel_arguments::KernelArguments;
use flameholder::core::values::names::ManagedPath;

use crate::halves;

/// The input is a `passwd` and, behind a NUL, a `group`.
pub(crate) fn accounts(input: &[u8]) {
    let (passwd, group) = halves(input);
    let (Ok(passwd), Ok(group)) = (std::str::from_utf8(passwd), std::str::from_utf8(group)) else { return };
    let accounts = AccountTable::parse([passwd], [group]);
    assert_eq!(accounts, AccountTable::parse([passwd, passwd], [group]), "the first entry of a name wins");
}

/// The input is a signature policy and, behind a NUL, an image's reference.
pub(crate) fn image_policy(input: &[u8]) {
    let (policy, image) = halves(input);
    let Ok(policy) = ImagePolicy::parse(policy) else { return };
    assert!(!policy.default_rule().requirements.is_empty(), "a rule demands something");
    let Some(image) = std::str::from_utf8(image).ok().and_then(|image| image.parse::<ImageRef>().ok()) else {
        return;
    };
    let rule = policy.rule_for(&image);
    assert!(!rule.demand().is_empty() && !rule.to_string().is_empty(), "{rule:?}");
    assert!(!(rule.accepts_anything() && rule.demands_signature()), "{rule:?}");
}

pub(crate) fn image_reference(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(image) = text.parse::<ImageRef>() else { return };
    let written = image.to_string();
    assert_eq!(written.parse::<ImageRef>().ok(), Some(image), "{written}");
}

/// The input is a command line and, behind a NUL, the arguments that a config wants.
pub(crate) fn kernel_arguments(input: &[u8]) {
    let (line, desired) = halves(input);
    let (Ok(line), Ok(desired)) = (std::str::from_utf8(line), std::str::from_utf8(desired)) else { return };
    let (present, desired) = (KernelArguments::parse(line), KernelArguments::parse(desired));
    let updated = present.updated(&KernelArguments::default(), &desired);
    assert_eq!(
        updated.missing(&desired),
        KernelArguments::default(),
        "{updated:?} lacks some of {desired:?}"
    );
    assert_eq!(updated.updated(&desired, &desired), updated, "an update without a change changes");
    assert_eq!(present.subtract(&present), KernelArguments::default());
}

/// The input is a `registries.conf` and, behind a NUL, the next one.
pub(crate) fn registries(input: &[u8]) {
    let (current, desired) = halves(input);
    let _ = registries::needs_drain(Some(current), Some(desired));
    let is_readable = !registries::needs_drain(None, Some(current));
    if is_readable {
        assert!(!registries::needs_drain(Some(current), Some(current)), "the same file needs a drain");
    }
}

pub(crate) fn settings(input: &[u8]) {
    let path = ManagedPath::constant("/etc/flameholder/config.d/50-input.toml");
    let fragment = FragmentFile { path: path.clone(), bytes: input.to_vec() };
    match Settings::of(std::slice::from_ref(&fragment)) {
        Ok(settings) => {
            let twice = Settings::of(&[fragment.clone(), fragment]);
            assert_eq!(twice.ok(), Some(settings), "the same fragment again sets something else");
        }
        Err(error) => check_faults(&error, &path),
    }
}

fn check_faults(error: &SettingsError, path: &ManagedPath) {
    let faults: Vec<_> = error.faults().collect();
    assert_eq!(faults.len(), 1, "{error}");
    assert!(faults.iter().all(|(of, _)| *of == path), "{error}");
}

/// The input is a unit and, behind a NUL, a preset file.
pub(crate) fn units(input: &[u8]) {
    let (unit, preset) = halves(input);
    let (Ok(unit), Ok(preset)) = (std::str::from_utf8(unit), std::str::from_utf8(preset)) else { return };
    let Ok(name) = UnitName::parse("input.service") else { return };
    for version in [252, 257].map(SystemdVersion) {
        let (presets, _) = PresetRules::parse([("50-input.preset", preset)], version);
        let mut files = UnitFiles::default();
        let path = "/usr/lib/systemd/system/input.service".to_owned();
        files.add_unit(name.clone(), [(path, UnitFile::Regular(unit.to_owned()))], Vec::new());
        for operation in [UnitOperation::Enable, UnitOperation::Preset, UnitOperation::Disable] {
            let operations = [operation(name.clone())];
            let links = EnablementLinks::default();
            let Ok(enabled) = enablement::operate(&links, &files, &presets, version, &operations) else {
                continue;
            };
            let again = enablement::operate(&enabled.links, &files, &presets, version, &operations);
            assert_eq!(
                again.ok().map(|again| again.links),
                Some(enabled.links),
                "repeating it changes links"
            );
        }
    }
}
