//! SELinux policies: the project's modules, compiled and linked against those of Debian, and the policy of a guest.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::cache::{Cache, Inputs, run_recipe};
use super::lock;
use crate::lab::Lab;

/// Kernel arguments of a host with SELinux. The kernel would lose audit records of a boot with a shorter backlog.
pub const KERNEL_ARGUMENTS: &str = "security=selinux selinux=1 enforcing=1 audit=1 audit_backlog_limit=8192";
/// Debian releases whose policy the modules are linked with.
const SUITES: [&str; 2] = ["bookworm", "trixie"];
/// Release of the guest.
const GUEST: &str = "trixie";

/// Folder with the project's module.
const PROJECT: &str = "selinux";
/// Folder with the module that a guest needs besides.
const TESTS: &str = "tests/vm/selinux/modules";
/// Folder with the module that only version 2 of the guest's OS has.
const NEXT_OS: &str = "tests/vm/selinux/next_os";
/// Folder with modules that must not link.
const VIOLATIONS: &str = "tests/vm/selinux/violations";
/// Domains that are not enforced in a guest.
const PERMISSIVE: &str = "tests/vm/selinux/permissive.cil";

/// Compile the modules for each Debian release, and link them with its policy, which checks their neverallow rules.
///
/// # Errors
/// A module does not compile or link, or one that must not link does. Root is required, for owners and mounts.
pub fn check(repository: &Path) -> Result<()> {
    let _lock = lock()?;
    let cache = Cache::open(&Lab::directory())?;
    SUITES.iter().try_for_each(|suite| module(&cache, repository, suite).map(drop))
}

/// Build the policies of the guest's OS from its Debian tree.
pub(super) fn of_guest(cache: &Cache, repository: &Path, debian: &Path) -> Result<PathBuf> {
    let module = module(cache, repository, GUEST)?;
    let permissive = repository.join(PERMISSIVE);
    let recipe = include_str!("../../recipe/selinux/policy.sh");
    let inputs = Inputs::default().text(recipe).stage(debian).stage(&module).file(&permissive)?;
    cache.stage("policy", inputs, |out| {
        run_recipe(recipe, out, &[("DEBIAN", debian), ("MODULE", &module), ("PERMISSIVE", &permissive)])
    })
}

fn module(cache: &Cache, repository: &Path, suite: &str) -> Result<PathBuf> {
    let compiler = compiler(cache, suite)?;
    let recipe = include_str!("../../recipe/selinux/module.sh");
    let mut inputs = Inputs::default().text(recipe).stage(&compiler);
    // The rules are the same everywhere: one release shows that they are checked.
    let violations = if suite == GUEST { policy_files(&repository.join(VIOLATIONS))? } else { Vec::new() };
    let mut sources = Vec::new();
    for folder in [PROJECT, TESTS, NEXT_OS] {
        sources.extend(policy_files(&repository.join(folder))?);
    }
    for file in sources.iter().chain(&violations) {
        inputs = inputs.text(&file.display().to_string()).file(file)?;
    }
    cache.stage(&format!("module-{suite}"), inputs, |out| {
        let folders = [(out.join("sources"), &sources), (out.join("violations"), &violations)];
        for (folder, files) in &folders {
            fs::create_dir(folder)?;
            for file in *files {
                fs::copy(file, folder.join(file.file_name().unwrap_or_default()))
                    .with_context(|| format!("copying {}", file.display()))?;
            }
        }
        let [(modules, _), (violations, _)] = &folders;
        run_recipe(recipe, out, &[("COMPILER", &compiler), ("MODULES", modules), ("VIOLATIONS", violations)])
    })
}

fn compiler(cache: &Cache, suite: &str) -> Result<PathBuf> {
    let recipe = include_str!("../../recipe/selinux/compiler.sh");
    let packages = include_str!("../../recipe/selinux/compiler.packages");
    cache.stage(&format!("compiler-{suite}"), Inputs::default().text(recipe).text(packages), |out| {
        let list = out.join("packages");
        fs::write(&list, packages).with_context(|| format!("writing {}", list.display()))?;
        run_recipe(recipe, out, &[("PACKAGES", &list), ("SUITE", Path::new(suite))])
    })
}

/// List the source files of policy modules in a folder, sorted.
fn policy_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| ["te", "fc", "if"].iter().any(|known| extension == *known))
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    /// Number of domains that are not enforced. It may only become smaller.
    const MOST: usize = 18;

    #[test]
    fn list_of_permissive_domains_only_shrinks() {
        let list = include_str!("../../selinux/permissive.cil");
        let domains: Vec<_> = list.lines().filter(|line| line.starts_with("(typepermissive ")).collect();
        assert!(domains.len() <= MOST, "{} domains", domains.len());
        assert!(!list.contains("flameholder"), "the project's domains are enforced");
    }
}
