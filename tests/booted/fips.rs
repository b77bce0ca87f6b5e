//! FIPS mode: a config is judged by the mode of the running kernel, not by the config before it.

use osimage::Os;
use testbed::booted::config::full_config;
use testbed::booted::fips::confirmed_host_out_of_fips_mode;
use testbed::booted::host::{Host, confirmed_host};

/// Return the refusal of a config with this FIPS mode by a plan; `None` if it is accepted.
fn refusal(host: &Host, mode: bool, profile: &str) -> Option<String> {
    let desired = host.config(full_config("two").fips(mode).json());
    let planned = host.run(["flameholder", "plan", "--profile", profile, "--desired", &desired]);
    (planned.code == Some(1)).then_some(planned.stdout + &planned.stderr)
}

#[test]
fn mode_of_the_kernel_decides() {
    // No record, and one whose config is without FIPS mode: neither says anything about the kernel.
    for host in [Host::install(Os::new(1)), confirmed_host("one")] {
        host.set_fips_mode(true);
        assert_eq!(refusal(&host, true, "mcd"), None);
        assert_eq!(refusal(&host, true, "native"), None);
        let refused = refusal(&host, false, "mcd").unwrap();
        assert!(refused.contains("spec.fips: the kernel is in FIPS mode, but the config"), "{refused}");
        assert_eq!(refusal(&host, false, "native"), None, "nothing is weakened");
        host.set_fips_mode(false);
        assert_eq!(refusal(&host, false, "mcd"), None);
        for profile in ["mcd", "native"] {
            let refused = refusal(&host, true, profile).unwrap();
            assert!(refused.contains("spec.fips: the kernel is not in FIPS mode"), "{refused}");
        }
    }
}

#[test]
fn applied_config_for_another_mode_is_drift() {
    let host = confirmed_host_out_of_fips_mode("one");
    host.write_etc("flameholder/config.d/10-drift.toml", "[drift]\ndefault = \"repair\"\n");
    let verified = host.run(["flameholder", "verify", "--repair"]);
    assert_eq!(verified.code, Some(2), "{verified:?}");
    for part in ["  FIPS mode  on   off  repair\n", ": FIPS mode is set only at installation"] {
        assert!(verified.stdout.contains(part), "{part}: {verified:?}");
    }
}

#[test]
fn version_names_the_library_that_speaks_tls() {
    let host = Host::install(Os::new(1));
    let version = host.run_ok(["flameholder", "--version"]);
    assert!(version.starts_with("flameholder ") && version.contains("\nTLS: rustls (linked in"), "{version}");
}
