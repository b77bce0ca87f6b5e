//! The target of an update: the sysroot, the configuration, and the purpose.

use crate::core::config::policy::DisruptionPolicy;
use crate::core::values::image::ImageRef;
use crate::core::values::profile::Profile;
use crate::host::facts::booted::open_deployment;
use crate::host::facts::booted::{BootedDeployment, SYSROOT};
use crate::host::facts::tree_facts::TreeScope;
use crate::host::{HostError, Root};
use crate::os::{Deployment, DeploymentId, Progress};
use crate::transaction::state::current::{Configuration, Current};
use std::path::Path;

/// What the operator asks for.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The sysroot.
    pub site: Site<'a>,
    /// The configuration.
    pub desired: &'a Configuration,
    /// An image that stands in for the configuration's own.
    pub image: Option<&'a ImageRef>,
    /// What it is wanted for.
    pub errand: Errand<'a>,
    /// Whose verdicts apply.
    pub profile: Profile,
    /// Which changes interrupt what.
    pub policy: &'a DisruptionPolicy,
}

/// What a configuration is applied for.
#[derive(Debug, Clone, Copy)]
pub enum Errand<'a> {
    /// It is wanted.
    Update,
    /// It is wanted, be it held or deviated from, and over a reboot even where nothing else needs one.
    Forced,
    /// What Ignition began is to be completed.
    FirstBoot,
    /// The host goes back to this deployment, whose commit is deployed again, whatever the configuration says of the
    /// image.
    Return(&'a Deployment),
}

impl<'a> Target<'a> {
    /// The deployment whose commit is deployed again.
    pub(crate) fn again(self) -> Option<&'a Deployment> {
        match self.errand {
            Errand::Return(to) => Some(to),
            Errand::Update | Errand::Forced | Errand::FirstBoot => None,
        }
    }

    /// Whether a deployment is made of it even where nothing differs.
    pub(crate) fn reboots_anyway(self) -> bool {
        matches!(self.errand, Errand::Forced | Errand::Return(_))
    }

    /// Whether it completes what Ignition began, and nothing was applied since.
    pub(crate) fn begins_first_boot(self, current: &Current) -> bool {
        matches!(self.errand, Errand::FirstBoot) && current.record.is_none()
    }
}

/// Which sysroot a generation is made for.
#[derive(Debug, Clone, Copy)]
pub enum Site<'a> {
    /// One that is not running.
    AtRest(&'a Path),
    /// The one that runs.
    Running(&'a BootedDeployment),
}

impl Site<'_> {
    /// The deployment that a new one is made from: what boots next, or what runs.
    pub(crate) fn base(self, deployments: Vec<Deployment>) -> Option<Deployment> {
        deployments.into_iter().find(|deployment| match self {
            Self::AtRest(_) => true,
            Self::Running(_) => deployment.booted,
        })
    }

    /// A deployment's tree, with the `/var` of its stateroot; the base that runs as it runs.
    pub(crate) fn open(self, base: &DeploymentId) -> Result<Root, HostError> {
        match self {
            Self::AtRest(sysroot) => open_deployment(sysroot, base),
            Self::Running(_) => Root::open(Path::new("/")),
        }
    }

    /// How much of that tree a change can be made to at once.
    pub(crate) fn reach(self) -> TreeScope {
        match self {
            Self::AtRest(_) => TreeScope::Etc,
            Self::Running(_) => TreeScope::Everything,
        }
    }

    /// Where its deployments lie.
    pub(crate) fn sysroot(&self) -> &Path {
        match self {
            Self::AtRest(sysroot) => sysroot,
            Self::Running(_) => Path::new(SYSROOT),
        }
    }

    /// What it is called in messages.
    pub(crate) fn place(self) -> String {
        match self {
            Self::AtRest(sysroot) => sysroot.display().to_string(),
            Self::Running(_) => "/".to_owned(),
        }
    }
}

/// How far a transaction is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// The image is brought in.
    Importing(Progress),
    /// The packages of extensions and kernels are brought in.
    Unpacking,
    /// The new deployment is made.
    Deploying,
    /// The configuration is written into it.
    Configuring,
    /// The boot entries are written.
    Finishing,
}
