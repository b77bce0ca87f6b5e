//! Groups of tests that have a precondition, or that a check of their own runs.

use std::path::Path;

use crate::project_tree::ProjectTree;
use crate::testing::{IgnoredTests, TestRunner, TestSelection};

/// Tests by nextest's filter expression, and by a target and a filter for `cargo test`.
#[derive(Debug)]
pub struct TestGroup {
    pub subject: &'static str,
    expression: &'static str,
    targets: &'static [&'static str],
    filters: &'static [&'static str],
}

pub const AS_ROOT: TestGroup = TestGroup {
    subject: "tests that need root",
    expression: "binary(tree) | binary(crash) | binary(sysroot) | binary(booted) | binary(daemon) \
        | binary(fleet) | test(/(^|::)as_root::/)",
    targets: &[
        "--test", "tree", "--test", "crash", "--test", "sysroot", "--test", "booted", "--test", "daemon",
        "--test", "fleet",
    ],
    filters: &[],
};
pub const WITH_API_SERVER: TestGroup = TestGroup {
    subject: "tests that need an API server",
    expression: "binary(/^(daemon|fleet)$/) & test(/^cluster::/)",
    targets: &["--test", "daemon", "--test", "fleet"],
    filters: &["cluster::"],
};
pub const WITH_NEXT_RELEASE: TestGroup = TestGroup {
    subject: "tests that need the executables of the next release",
    expression: "binary(booted) & test(/^releases::/)",
    targets: &["--test", "booted"],
    filters: &["releases::"],
};
pub const WITH_DEBIAN_TOOLS: TestGroup = TestGroup {
    subject: "tests that need skopeo and the registry of a later Debian",
    expression: "binary(sysroot) & test(/^worker::signed_images::/)",
    targets: &["--test", "sysroot"],
    filters: &["worker::signed_images::"],
};
/// Run with the release executable, by a check of their own.
pub const KILLS: TestGroup = TestGroup {
    subject: "tests that kill the executable",
    expression: "binary(crash) & test(/^kills::/)",
    targets: &["--test", "crash"],
    filters: &["kills::"],
};
/// Run with the release executable, by a check of their own, as each release build has one library of two.
pub const TLS: TestGroup = TestGroup {
    subject: "tests of TLS",
    expression: "test(/(^|::)(config_server|tls)::/) & not kind(lib)",
    targets: &["--test", "cli", "--test", "daemon"],
    filters: &["config_server::", "tls::"],
};
/// Run in shares, as they repeat a change from every place where it can be disturbed.
pub const LONG: TestGroup = TestGroup {
    subject: "long tests",
    expression: "test(/(^|::)(crashes|deaths|kills|leaks|lying|race|rendered)::/) \
        & not (binary(crash) & test(/^kills::/))",
    targets: &["--test", "tree", "--test", "crash", "--test", "sysroot", "--test", "booted"],
    filters: &["crashes::", "deaths::", "kills::", "leaks::", "lying::", "race::", "rendered::"],
};
/// Run in turns, as they wait for the retries, limits and intervals of the product, or repeat a case many times.
pub const SLOW: TestGroup = TestGroup {
    subject: "slow tests",
    expression: "(binary(daemon) & test(/^cluster::(alerts|faults|history|pinned_images)::/)) \
        | (binary(daemon) & test(/^cluster::idle::/) & not test(/^cluster::idle::release::/)) \
        | (binary(booted) & test(/^(releases|soak|surface|rpm_ostree::failures|rpm_ostree::meddling)::/)) \
        | (binary(sysroot) & test(/^worker::(signatures|signed_images)::/))",
    targets: &["--test", "daemon", "--test", "booted", "--test", "sysroot"],
    filters: &[
        "cluster::alerts::",
        "cluster::faults::",
        "cluster::history::",
        "cluster::pinned_images::",
        "cluster::idle::",
        "releases::",
        "soak::",
        "surface::",
        "rpm_ostree::failures::",
        "rpm_ostree::meddling::",
        "worker::signatures::",
        "worker::signed_images::",
    ],
};
/// Ignored in other runs, as only the release executable is as small as it must be.
pub const IDLE: TestGroup = TestGroup {
    subject: "tests of the idle daemon",
    expression: "binary(daemon) & test(/^cluster::idle::release::/)",
    targets: &["--test", "daemon"],
    filters: &["cluster::idle::release::"],
};
/// Run first, by a check of their own.
const HOUSE_RULES: &str = "binary(house)";
/// Run last, on virtual machines.
const SCENARIOS: &str = "(package(vm) & kind(test))";
/// Run by other tests, in a process that systemd or their host starts; alone they fail, or test nothing.
const SERVICES: &str = "_as_a_service";
/// The targets of `cargo test` besides house rules and scenarios: those that need no root.
const WITHOUT_ROOT: [&str; 8] = ["--lib", "--bins", "--test", "core", "--test", "cli", "--test", "services"];

impl TestGroup {
    /// Select the tests of this group but those of `excluded`.
    pub fn selection_but(
        &self,
        excluded: &[&Self],
        runner: TestRunner,
        ignored: IgnoredTests,
    ) -> TestSelection {
        let mut selection = self.selection(runner, ignored);
        for group in excluded {
            selection.expression = format!("({}) & not ({})", selection.expression, group.expression);
            let skipped = group.filters.iter().flat_map(|filter| ["--skip", filter]);
            selection.arguments.extend(skipped.map(str::to_owned));
        }
        selection
    }

    /// Select the tests of this group, without the services of other tests.
    pub fn selection(&self, runner: TestRunner, ignored: IgnoredTests) -> TestSelection {
        // nextest refuses an expression that names an executable outside of its targets.
        let targets = if runner == TestRunner::Nextest { &["--tests"][..] } else { self.targets };
        TestSelection {
            expression: format!("({}) & not test({SERVICES})", self.expression),
            arguments: self.filters.iter().chain(&["--skip", SERVICES]).map(ToString::to_string).collect(),
            ..TestSelection::of(targets).with_ignored(ignored)
        }
    }
}

/// Select the tests of TLS but those of `excluded`.
pub fn tls_tests(excluded: &[&TestGroup], runner: TestRunner, ignored: IgnoredTests) -> TestSelection {
    let mut selection = TLS.selection_but(excluded, runner, ignored);
    if runner == TestRunner::Cargo && excludes_root(excluded) {
        selection.targets = ["--test", "cli"].map(str::to_owned).to_vec();
    }
    selection
}

fn excludes_root(excluded: &[&TestGroup]) -> bool {
    excluded.iter().any(|group| group.subject == AS_ROOT.subject)
}

/// Select all tests but those of other checks and those of `excluded`.
///
/// `cargo test` cannot tell the tests that kill the executable from other long ones, as its filters are mere
/// substrings: it runs them with the debug build as well.
pub fn remaining_tests(excluded: &[&TestGroup], ignored: IgnoredTests) -> TestSelection {
    let services = format!("test({SERVICES})");
    let others = [HOUSE_RULES, SCENARIOS, KILLS.expression, TLS.expression, IDLE.expression, &services];
    let groups = others.into_iter().chain(excluded.iter().map(|group| group.expression));
    let groups: Vec<_> = groups.map(|expression| format!("({expression})")).collect();
    let mut targets = WITHOUT_ROOT.to_vec();
    if !excludes_root(excluded) {
        targets.extend(AS_ROOT.targets);
    }
    let filters = [IDLE.filters].into_iter().chain(excluded.iter().map(|group| group.filters));
    let skipped = std::iter::once(&SERVICES).chain(filters.flatten()).flat_map(|filter| ["--skip", filter]);
    TestSelection {
        expression: format!("not ({})", groups.join(" | ")),
        arguments: skipped.map(str::to_owned).collect(),
        ..TestSelection::of(&targets).with_ignored(ignored)
    }
}

/// Return the reason if tests that need root cannot run.
pub fn root_obstacle() -> Option<String> {
    (!rustix::process::geteuid().is_root()).then(|| "this user is not root".to_owned())
}

/// Return the reason if tests that need an API server cannot run.
pub fn api_server_obstacle(tree: &ProjectTree) -> Option<String> {
    if std::env::var_os("FLAMEHOLDER_TEST_KUBECONFIG").is_some() {
        return None;
    }
    let named = std::env::var_os("FLAMEHOLDER_TEST_APISERVER");
    let beside = || tree.root().join("../shared/control-plane/crd-apiserver.xz");
    let executable = named.as_deref().map_or_else(beside, |path| Path::new(path).to_owned());
    let reason =
        "no API server executable: set FLAMEHOLDER_TEST_APISERVER to one, as CONTRIBUTING.md describes";
    (!executable.is_file()).then(|| reason.to_owned())
}

/// Return the reason if tests that need the next release cannot run.
pub fn next_release_obstacle(tree: &ProjectTree) -> Option<String> {
    (!tree.has_next_release()).then(|| "no executables of the next release: their build failed".to_owned())
}

/// Return the reason if tests with programs of a later Debian cannot run.
pub fn debian_tools_obstacle(tree: &ProjectTree) -> Option<String> {
    (!tree.has_debian_tools()).then(|| "no Debian tree with these programs: its build failed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_tests_leave_out_each_excluded_group() {
        let selection = remaining_tests(&[&WITH_API_SERVER], IgnoredTests::Excluded);
        assert!(selection.expression.ends_with("(binary(/^(daemon|fleet)$/) & test(/^cluster::/)))"));
        assert_eq!(
            selection.arguments,
            ["--skip", SERVICES, "--skip", IDLE.filters[0], "--skip", "cluster::"]
        );
        assert!(selection.targets.contains(&"daemon".to_owned()));
        let selection = remaining_tests(&[&AS_ROOT], IgnoredTests::Excluded);
        assert!(!selection.targets.contains(&"daemon".to_owned()));
    }

    #[test]
    fn tests_of_tls_leave_out_each_excluded_group() {
        let tests = |excluded: &[&TestGroup], runner| tls_tests(excluded, runner, IgnoredTests::Excluded);
        let without_server = tests(&[&WITH_API_SERVER], TestRunner::Nextest);
        assert!(
            without_server.expression.ends_with(") & not (binary(/^(daemon|fleet)$/) & test(/^cluster::/))")
        );
        let without_server = tests(&[&WITH_API_SERVER], TestRunner::Cargo);
        let skipped = ["--skip", SERVICES, "--skip", "cluster::"];
        assert_eq!(without_server.arguments, [TLS.filters, &skipped].concat());
        assert_eq!(tests(&[&AS_ROOT], TestRunner::Cargo).targets, ["--test", "cli"]);
        assert_eq!(tests(&[], TestRunner::Cargo).targets, ["--test", "cli", "--test", "daemon"]);
    }

    #[test]
    fn nextest_gets_all_targets_and_cargo_only_the_groups_own() {
        let targets = |runner| KILLS.selection(runner, IgnoredTests::Excluded).targets.join(" ");
        assert_eq!(targets(TestRunner::Nextest), "--tests");
        assert_eq!(targets(TestRunner::Cargo), "--test crash");
    }
}
