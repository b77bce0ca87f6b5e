//! Operating systems of virtual machines.

/// Operating system of a virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestOs {
    /// Debian with OSTree.
    Plain,
    /// The same with SELinux enforcing.
    Selinux,
}

impl GuestOs {
    /// Return the operating system that the option `--selinux` chooses.
    pub fn of_option(selinux: bool) -> Self {
        if selinux { Self::Selinux } else { Self::Plain }
    }

    /// Return the option that chooses it.
    pub fn option(self) -> Option<&'static str> {
        (self == Self::Selinux).then_some("--selinux")
    }

    /// Return the value of `FLAMEHOLDER_VM_OS` that chooses it for scenarios.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Selinux => "selinux",
        }
    }
}
