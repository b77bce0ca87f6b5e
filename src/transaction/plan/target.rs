//! Target of an update: sysroot, desired config and purpose.

use std::ffi::OsString;
use std::path::Path;

use crate::core::config::policy::DisruptionPolicy;
use crate::core::plan::Plan;
use crate::core::plan::drift::local_merge::MergePolicies;
use crate::core::state::blocked::{BlockedTarget, DesiredImage, TargetIdentity};
use crate::core::values::image::ImageRef;
use crate::core::values::profile::Profile;
use crate::host::facts::booted::{SYSROOT, open_deployment};
use crate::host::facts::tree_facts::TreeScope;
use crate::host::{HostError, Root, RunningHost};
use crate::os::{Deployment, DeploymentId, PullProgress};
use crate::transaction::TransactionError;
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use crate::transaction::state::settings;

/// Everything that an update is asked for.
#[derive(Debug, Clone, Copy)]
pub struct UpdateTarget<'a> {
    pub sysroot: TargetSysroot<'a>,
    pub desired: &'a DecodedConfig,
    /// Image to deploy instead of the config's own, from `--os-image`.
    pub image: Option<&'a ImageRef>,
    pub purpose: UpdatePurpose<'a>,
    /// Profile whose rules decide which changes can be applied.
    pub profile: Profile,
    /// Node disruption policy of the source; `None` for the one of the host's settings.
    pub policy: Option<&'a DisruptionPolicy>,
}

/// Purpose of an update.
#[derive(Debug, Clone, Copy)]
pub enum UpdatePurpose<'a> {
    /// Apply the desired config.
    Update,
    /// Apply over a blocked target and over drift, and reboot even if no change needs it; requested by the
    /// force file.
    Forced,
    /// Complete the configuration that Ignition began.
    FirstBoot,
    /// Deploy the commit of this deployment again, regardless of the image in the config.
    Rollback(&'a Deployment),
}

impl<'a> UpdateTarget<'a> {
    /// Return the deployment to roll back to, whose commit is deployed again.
    pub(crate) fn redeployed(self) -> Option<&'a Deployment> {
        match self.purpose {
            UpdatePurpose::Rollback(to) => Some(to),
            UpdatePurpose::Update | UpdatePurpose::Forced | UpdatePurpose::FirstBoot => None,
        }
    }

    /// Return true if this update is blocked.
    pub(crate) fn is_blocked_by(self, blocked: &BlockedTarget) -> bool {
        let image = self.desired_image();
        let image = match image.as_ref().and_then(ImageRef::digest) {
            Some(digest) => DesiredImage::Pinned(digest),
            None if self.image.is_some() => DesiredImage::TagOfOption,
            None => DesiredImage::OfConfig,
        };
        let layered_image = self.desired.layered_image.as_deref();
        blocked.blocks(TargetIdentity { config_hash: &self.desired.config_hash(), layered_image }, image)
    }

    /// Return true if the desired image is named by something that can name another image tomorrow.
    pub(crate) fn has_unpinned_image(self) -> bool {
        self.desired_image().is_some_and(|image| image.digest().is_none())
    }

    fn desired_image(self) -> Option<ImageRef> {
        let configured = || self.desired.host.os.image.as_ref().and_then(|image| image.parse().ok());
        self.image.cloned().or_else(configured)
    }

    /// Return true if a new deployment is made even without a difference.
    pub(crate) fn always_reboots(self) -> bool {
        matches!(self.purpose, UpdatePurpose::Forced | UpdatePurpose::Rollback(_))
    }

    /// Load the policies by which local changes are merged, from the `running` tree and the one that is written to; `None`
    /// where none are, and where what Ignition created is taken over, which is no local change.
    pub(crate) fn merge_policies(
        self,
        current: &CurrentState,
        running: &Root,
        next: &Root,
    ) -> Result<Option<MergePolicies>, TransactionError> {
        if self.starts_first_boot(current) {
            return Ok(None);
        }
        settings::merge_policies(running, next, &self.desired.host)
    }

    /// Have local changes that contradict the config replaced where no operator is there to decide, or where users other
    /// than root can make them.
    pub(crate) fn overrule_conflicts(self, plan: &mut Plan, root: &Root) {
        let is_update = matches!(self.purpose, UpdatePurpose::Update);
        for path in plan.overrule_conflicts(|path| !is_update || root.is_changed_by_users(path)) {
            log::warn!("the local changes of {path} contradict the config that is applied, and are replaced");
        }
    }

    /// Return true for a first boot before any generation was recorded.
    pub(crate) fn starts_first_boot(self, current: &CurrentState) -> bool {
        matches!(self.purpose, UpdatePurpose::FirstBoot) && current.record.is_none()
    }
}

/// Sysroot in which the update makes a deployment.
#[derive(Debug, Clone, Copy)]
pub enum TargetSysroot<'a> {
    /// A sysroot that is not running, at this path.
    Offline(&'a Path),
    /// The booted sysroot.
    Running(&'a RunningHost),
}

impl TargetSysroot<'_> {
    /// Return the deployment that the new one is based on: the default one offline, the booted one on a
    /// running host.
    pub(crate) fn base(self, deployments: Vec<Deployment>) -> Option<Deployment> {
        deployments.into_iter().find(|deployment| match self {
            Self::Offline(_) => true,
            Self::Running(host) => !deployment.staged && deployment.id == host.booted.deployment,
        })
    }

    /// Open a deployment with the `/var` of its stateroot. The booted one is opened with its
    /// mounts.
    pub(crate) fn open(self, base: &DeploymentId) -> Result<Root, HostError> {
        match self {
            Self::Offline(sysroot) => open_deployment(sysroot, base),
            Self::Running(host) => Root::open(host.root.path()),
        }
    }

    /// Return the part of the tree that a change can reach: offline, files outside `/etc` wait for
    /// activation.
    pub(crate) fn scope(self) -> TreeScope {
        match self {
            Self::Offline(_) => TreeScope::Etc,
            Self::Running(_) => TreeScope::Everything,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Offline(sysroot) => sysroot,
            Self::Running(_) => Path::new(SYSROOT),
        }
    }

    /// Return true if the kernel is in FIPS mode; `None` if it has no such mode, or does not run.
    pub(crate) fn fips_mode(self) -> Option<bool> {
        match self {
            Self::Offline(_) => None,
            Self::Running(host) => host.system.fips_mode,
        }
    }

    /// Return the directories of programs that the update can start, separated by colons.
    pub(crate) fn program_path(self) -> OsString {
        match self {
            Self::Offline(_) => std::env::var_os("PATH").unwrap_or_default(),
            Self::Running(host) => host.system.path.clone(),
        }
    }

    /// Return the path of the sysroot for messages.
    pub(crate) fn display_name(self) -> String {
        match self {
            Self::Offline(sysroot) => sysroot.display().to_string(),
            Self::Running(_) => "/".to_owned(),
        }
    }
}

/// Step of an update, for progress reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateProgress {
    /// Pulling and importing the OS image.
    Pulling(PullProgress),
    /// Unpacking the extensions image.
    Unpacking,
    /// Checking out the new deployment.
    Deploying,
    /// Writing the config into the new deployment.
    Configuring,
    WritingBootEntries,
}
