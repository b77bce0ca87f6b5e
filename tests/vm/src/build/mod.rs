//! Build of a booted host from Debian packages, saved to a file.
//!
//! | stage | contents | rebuilt when |
//! |---|---|---|
//! | `builder` | a Debian tree with QEMU, bootloader, registry and skopeo | its list of packages changes |
//! | `compiler-SUITE` | the SELinux policy of a Debian release, and what compiles modules of it | its list of packages changes |
//! | `module-SUITE` | the compiled policy modules of the project and of the tests | one of them or the compiler changes |
//! | `debian` | a Debian tree with a kernel, OSTree and skopeo | its list of packages changes |
//! | `tree` | the `debian` tree in OSTree's layout, with an initramfs | its recipe changes |
//! | `accelerator` | the name of the accelerator: `kvm` if KVM runs a guest, else `tcg` | the machine or QEMU changes |
//! | `overlay` | this project's executables and units, and the files of the tests | one of them changes |
//! | `images` | five versions of the OS as container images, in a layout and a registry's storage | `tree` or `overlay` changes |
//! | `disk`, `disk4`, `disk5` | a disk with version 1 deployed, one as an installer leaves it for Ignition, and one like it without the agent | `images` changes |
//! | `warm` | `disk` after a boot, with the memory of the running host | `disk` or the machine changes |
//!
//! The stages of a host with SELinux are `debian-selinux`, `tree-selinux` and so on, and `policy`, the policies of its OS. Those of
//! kola's guest are `debian-kola` to `disk4-kola`.

pub(crate) mod cache;
mod overlay;
pub mod policy;
mod terminal;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use cache::{Cache, Inputs, run_recipe};
use overlay::Overlay;
use rustix::fs::{FlockOperation, flock};

use crate::accel::Accelerator;
use crate::host::Host;
use crate::lab::{self, GuestOs, Lab, REPOSITORY};
use crate::machine::{Forward, HARDWARE};
use crate::registry::{self, Registry};
use crate::signing::{ImageSigner, SignatureKind};
use crate::snapshot::Base;

/// Inputs of a build, besides Debian's packages.
#[derive(Debug)]
pub struct Sources {
    pub repository: PathBuf,
    /// Folder with the executables for the guest.
    pub binaries: PathBuf,
    /// The executable of `tests/osimage`.
    pub osimage: PathBuf,
}

/// Build missing and outdated stages of a host with this operating system.
///
/// # Errors
/// A stage fails; nothing of it is kept. Root is required, for mounts, owners and device files.
pub fn build(sources: &Sources, os: GuestOs) -> Result<Lab> {
    let _lock = lock()?;
    let (lab, disk) = build_disk(sources, os, 1)?;
    warm(&lab, &disk)?;
    Ok(lab)
}

/// Boot a host with this version of the OS on this terminal. Its disk is deleted when QEMU ends.
///
/// # Errors
/// As for [`build`]; QEMU does not start, or fails.
pub fn run(sources: &Sources, os: GuestOs, version: u32, forwards: &[Forward]) -> Result<()> {
    let lock = lock()?;
    let (lab, disk) = build_disk(sources, os, version)?;
    drop(lock);
    terminal::run(&lab, &Base::switched_off(&disk), forwards)
}

/// Build missing and outdated stages of the guest that kola boots, and return its disk, as an installer leaves it for Ignition.
///
/// # Errors
/// As for [`build`].
pub(crate) fn kola_disk(sources: &Sources) -> Result<(Lab, PathBuf)> {
    let _lock = lock()?;
    build_disk(sources, GuestOs::Kola, lab::INSTALLED)
}

/// Take the lock of the build. A second build waits for the first one.
fn lock() -> Result<File> {
    let root = Lab::directory();
    fs::create_dir_all(&root).with_context(|| format!("making {}", root.display()))?;
    let lock = File::create(root.join("lock"))?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// Build all stages but `warm`, and return the folder of the disk with this version of the OS.
fn build_disk(sources: &Sources, os: GuestOs, version: u32) -> Result<(Lab, PathBuf)> {
    ensure!(rustix::process::geteuid().is_root(), "building a host mounts file systems: run this as root");
    let root = Lab::directory();
    let cache = Cache::open(&root)?;
    let lab = Lab::at(root, os);
    let builder = builder_stage(&cache)?;
    let debian = debian(&cache, &os.stage("debian"), &packages(os))?;
    let tree = tree(&cache, os, &debian)?;
    accelerator(&cache, &builder, &tree)?;
    let overlay = Overlay {
        sources: sources.repository.clone(),
        binaries: sources.binaries.clone(),
        stand_ins: sources.osimage.parent().unwrap_or(Path::new("")).to_owned(),
    };
    let overlay = cache.stage("overlay", overlay.inputs()?, |out| overlay.write(&out.join("tree")))?;
    let policy = match os {
        GuestOs::Plain | GuestOs::Kola => PathBuf::new(),
        GuestOs::Selinux => policy::of_guest(&cache, &sources.repository, &debian)?,
    };
    let images = images(&cache, sources, os, [&builder, &tree, &overlay, &policy])?;
    disk(&cache, sources, os, &images, lab::INSTALLED)?;
    if os == GuestOs::Plain {
        disk(&cache, sources, os, &images, lab::WITHOUT_AGENT)?;
    }
    let disk = disk(&cache, sources, os, &images, version)?;
    Ok((lab, disk))
}

/// Build the tree with the programs that builds and tests use, and return it.
///
/// # Errors
/// The packages cannot be had or unpacked. Root is required, for owners and device files.
pub fn builder() -> Result<PathBuf> {
    let _lock = lock()?;
    let cache = Cache::open(&Lab::directory())?;
    Ok(builder_stage(&cache)?.join("tree"))
}

fn builder_stage(cache: &Cache) -> Result<PathBuf> {
    debian(cache, "builder", include_str!("../../recipe/builder.packages"))
}

/// List the packages of an operating system.
fn packages(os: GuestOs) -> String {
    let packages = include_str!("../../recipe/os.packages").to_owned();
    match os {
        GuestOs::Plain => packages,
        GuestOs::Selinux => packages + include_str!("../../recipe/selinux/os.packages"),
        GuestOs::Kola => packages + include_str!("../../recipe/kola/os.packages"),
    }
}

fn debian(cache: &Cache, name: &str, packages: &str) -> Result<PathBuf> {
    let recipe = include_str!("../../recipe/debian.sh");
    cache.stage(name, Inputs::default().text(recipe).text(packages), |out| {
        let list = out.join("packages");
        fs::write(&list, packages).with_context(|| format!("writing {}", list.display()))?;
        run_recipe(recipe, out, &[("PACKAGES", &list)])
    })
}

fn tree(cache: &Cache, os: GuestOs, debian: &Path) -> Result<PathBuf> {
    let recipe = match os {
        GuestOs::Plain | GuestOs::Selinux => include_str!("../../recipe/tree.sh"),
        GuestOs::Kola => {
            concat!(include_str!("../../recipe/tree.sh"), include_str!("../../recipe/kola/guest.sh"))
        }
    };
    cache.stage(&os.stage("tree"), Inputs::default().text(recipe).stage(debian), |out| {
        run_recipe(recipe, out, &[("DEBIAN", debian)])
    })
}

fn accelerator(cache: &Cache, builder: &Path, tree: &Path) -> Result<PathBuf> {
    let machine = fs::read_to_string("/proc/sys/kernel/osrelease")? + &fs::read_to_string("/proc/cpuinfo")?;
    // The current clock rate is no property of the machine.
    let machine: String = machine.lines().filter(|line| !line.starts_with("cpu MHz")).collect();
    cache.stage("accelerator", Inputs::default().text(&machine).stage(builder), |out| {
        let modules = tree.join("tree/usr/lib/modules");
        let release = fs::read_dir(&modules)?.next().context("the tree has no kernel")??;
        let found = Accelerator::probe(&builder.join("tree"), &release.path().join("vmlinuz"), out)?;
        Ok(fs::write(out.join("name"), found.name())?)
    })
}

fn images(
    cache: &Cache,
    sources: &Sources,
    os: GuestOs,
    [builder, tree, overlay, policy]: [&Path; 4],
) -> Result<PathBuf> {
    let recipe = include_str!("../../recipe/images.sh");
    let inputs = Inputs::default().text(recipe).stage(builder).stage(tree).stage(overlay).stage(policy);
    cache.stage(&os.stage("images"), inputs, |out| {
        let builder_tree = builder.join("tree");
        let variables = [
            ("TREE", tree),
            ("OVERLAY", overlay),
            ("POLICY", policy),
            ("OSIMAGE", sources.osimage.as_path()),
            ("BUILDER", builder_tree.as_path()),
        ];
        run_recipe(recipe, out, &variables)?;
        fill_registry(&builder_tree, out)
    })
}

/// Copy the images into the storage that registries serve in the scenarios, version 2 signed by keys of both kinds.
fn fill_registry(builder: &Path, images: &Path) -> Result<()> {
    let (storage, keys) = (images.join("registry"), images.join("signer"));
    for folder in [&storage, &keys] {
        fs::create_dir(folder)?;
    }
    let scratch = tempfile::tempdir()?;
    let mut registry = Registry::new(builder, &storage, scratch.path(), registry::free_port()?);
    registry.start()?;
    let signer = ImageSigner::create(builder, &keys)?;
    for version in 1..=4 {
        let layout = format!("{}:{version}", images.join("layout").display());
        let repository = format!("127.0.0.1:{}/{REPOSITORY}", registry.port());
        if version == lab::SIGNED {
            let identity = format!("{}/{REPOSITORY}:{version}", lab::REGISTRY);
            for kind in [SignatureKind::Gpg, SignatureKind::Sigstore] {
                signer.push_signed(&layout, &format!("{repository}:{version}"), kind, Some(&identity))?;
            }
        } else {
            signer.push(&layout, &format!("{repository}:{version}"))?;
        }
    }
    Ok(())
}

fn disk(cache: &Cache, sources: &Sources, os: GuestOs, images: &Path, version: u32) -> Result<PathBuf> {
    let recipe = include_str!("../../recipe/disk.sh");
    let name = if version == 1 { "disk".to_owned() } else { format!("disk{version}") };
    let builder = cache.current("builder")?;
    // Debian's Ignition takes the order to run, and its platform, from the kernel arguments.
    let is_installed = [lab::INSTALLED, lab::WITHOUT_AGENT].contains(&version);
    let ignition = if is_installed { "ignition.firstboot ignition.platform.id=qemu" } else { "" };
    let selinux = if os == GuestOs::Selinux { policy::KERNEL_ARGUMENTS } else { "" };
    let arguments = format!("{ignition} {selinux}");
    cache.stage(
        &os.stage(&name),
        Inputs::default().text(recipe).text(&arguments).stage(&builder).stage(images),
        |out| {
            let layout = PathBuf::from(format!("{}:{version}", images.join("layout").display()));
            let reference = PathBuf::from(lab::image_reference(images, version)?);
            let builder = builder.join("tree");
            let variables = [
                ("ARGUMENTS", Path::new(&arguments)),
                ("BUILDER", builder.as_path()),
                ("LAYOUT", &layout),
                ("OSIMAGE", &sources.osimage),
                ("REFERENCE", &reference),
            ];
            run_recipe(recipe, out, &variables)
        },
    )
}

fn warm(lab: &Lab, disk: &Path) -> Result<PathBuf> {
    let cache = Cache::open(&Lab::directory())?;
    let builder = cache.current("builder")?;
    let accelerator = Accelerator::of(lab)?.name();
    let machine = concat!(include_str!("../machine.rs"), include_str!("../accel.rs"));
    let inputs = Inputs::default().text(HARDWARE).text(machine).text(accelerator).stage(&builder).stage(disk);
    cache.stage(&lab.os().stage("warm"), inputs, |out| {
        let mut host = Host::start_from(lab.clone(), &Base::switched_off(disk), None)?;
        let failed = host.run_ok("systemctl --failed --plain --no-legend")?;
        ensure!(failed.is_empty(), "units failed at the first boot:\n{failed}");
        host.save_to(&out.join("host"))?;
        for name in ["disk.qcow2", "state"] {
            fs::rename(out.join("host").join(name), out.join(name))?;
        }
        Ok(fs::remove_dir(out.join("host"))?)
    })
}
