//! The target of an update: the sysroot, the configuration, and the purpose.

use crate::core::config::policy::DisruptionPolicy;
use crate::core::values::image::ImageRef;
use crate::core::values::profile::Profile;
use crate::host::facts::booted::open_deployment;
use crate::host::facts::booted::{BootedDeployment, SYSROOT};
use crate::host::facts::tree_facts::TreeScope;
use crate::host::{HostError, Root};
use crate::os::{Deployment, DeploymentId, PullProgress};
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use std::path::Path;

/// What the operator asks for.
#[derive(Debug, Clone, Copy)]
pub struct UpdateTarget<'a> {
    /// The sysroot.
    pub site: TargetSysroot<'a>,
    /// The configuration.
    pub desired: &'a DecodedConfig,
    /// An image that stands in for the configuration's own.
    pub image: Option<&'a ImageRef>,
    /// What it is wanted for.
    pub errand: UpdatePurpose<'a>,
    /// Whose verdicts apply.
    pub profile: Profile,
    /// Which changes interrupt what.
    pub policy: &'a DisruptionPolicy,
}

/// What a configuration is applied for.
#[derive(Debug, Clone, Copy)]
pub enum UpdatePurpose<'a> {
    /// It is wanted.
    Update,
    /// It is wanted, be it held or deviated from, and over a reboot even where nothing else needs one.
    Forced,
    /// What Ignition began is to be completed.
    FirstBoot,
    /// The host goes back to this deployment, whose commit is deployed again, whatever the configuration says of the
    /// image.
    Rollback(&'a Deployment),
}

impl<'a> UpdateTarget<'a> {
    /// The deployment whose commit is deployed again.
    pub(crate) fn again(self) -> Option<&'a Deployment> {
        match self.errand {
            UpdatePurpose::Rollback(to) => Some(to),
            UpdatePurpose::Update | UpdatePurpose::Forced | UpdatePurpose::FirstBoot => None,
        }
    }

    /// Whether a deployment is made of it even where nothing differs.
    pub(crate) fn reboots_anyway(self) -> bool {
        matches!(self.errand, UpdatePurpose::Forced | UpdatePurpose::Rollback(_))
    }

    /// Whether it completes what Ignition began, and nothing was applied since.
    pub(crate) fn begins_first_boot(self, current: &CurrentState) -> bool {
        matches!(self.errand, UpdatePurpose::FirstBoot) && current.record.is_none()
    }
}

/// Which sysroot a generation is made for.
#[derive(Debug, Clone, Copy)]
pub enum TargetSysroot<'a> {
    /// One that is not running.
    Offline(&'a Path),
    /// The one that runs.
    Running(&'a BootedDeployment),
}

impl TargetSysroot<'_> {
    /// The deployment that a new one is made from: what boots next, or what runs.
    pub(crate) fn base(self, deployments: Vec<Deployment>) -> Option<Deployment> {
        deployments.into_iter().find(|deployment| match self {
            Self::Offline(_) => true,
            Self::Running(_) => deployment.booted,
        })
    }

    /// A deployment's tree, with the `/var` of its stateroot; the base that runs as it runs.
    pub(crate) fn open(self, base: &DeploymentId) -> Result<Root, HostError> {
        match self {
            Self::Offline(sysroot) => open_deployment(sysroot, base),
            Self::Running(_) => Root::open(Path::new("/")),
        }
    }

    /// How much of that tree a change can be made to at once.
    pub(crate) fn reach(self) -> TreeScope {
        match self {
            Self::Offline(_) => TreeScope::Etc,
            Self::Running(_) => TreeScope::Everything,
        }
    }

    /// Where its deployments lie.
    pub(crate) fn sysroot(&self) -> &Path {
        match self {
            Self::Offline(sysroot) => sysroot,
            Self::Running(_) => Path::new(SYSROOT),
        }
    }

    /// What it is called in messages.
    pub(crate) fn place(self) -> String {
        match self {
            Self::Offline(sysroot) => sysroot.display().to_string(),
            Self::Running(_) => "/".to_owned(),
        }
    }
}

/// How far a transaction is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateProgress {
    /// The image is brought in.
    Pulling(PullProgress),
    /// The packages of extensions and kernels are brought in.
    Unpacking,
    /// The new deployment is made.
    Deploying,
    /// The configuration is written into it.
    Configuring,
    /// The boot entries are written.
    WritingBootEntries,
}
