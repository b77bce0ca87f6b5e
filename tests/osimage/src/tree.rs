//! File system tree of the OS.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use anyhow::Context as _;

use crate::agent::ShippedAgent;
use crate::{programs, rpm_database, units};

/// Size of the generated kernel and initramfs, in bytes.
const KERNEL_SIZE: usize = 8 * 1024;

/// Substitution of paths in the SELinux policy, `file_contexts.subs_dist`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyPaths {
    /// None but that of `/usr/etc`.
    Plain,
    /// As Fedora ships it: paths in `/var` are looked up by the links that lead there.
    Fedora,
    /// As rpm-ostree changes Fedora's: paths in `/home` are looked up in `/var/home`, which the file contexts name.
    RpmOstree,
}

impl PolicyPaths {
    fn substitutions(self) -> &'static str {
        match self {
            Self::Plain => "/usr/etc /etc\n",
            Self::Fedora => "/usr/etc /etc\n/var/home /home\n/var/usrlocal /usr/local\n/var/roothome /root\n",
            Self::RpmOstree => {
                "/usr/etc /etc\n/home /var/home\n/var/usrlocal /usr/local\n/var/roothome /root\n"
            }
        }
    }

    /// The directory of home directories that the file contexts name.
    fn home(self) -> &'static str {
        if self == Self::RpmOstree { "/var/home" } else { "/home" }
    }
}

/// Version of an OS that looks like Fedora CoreOS.
///
/// Versions differ in kernel, version strings and `/usr/etc`: `chrony.conf` changes with each, and
/// `os/version-N.conf` exists in version N only, so that an update changes, adds and removes a file.
#[derive(Debug, Clone)]
pub struct Os {
    number: u32,
    selinux: Option<PolicyPaths>,
    bootable: bool,
    broken: bool,
    /// Directories in `/` that are links to `/var`, besides the usual ones.
    links: Vec<&'static str>,
    agent: Option<ShippedAgent>,
    has_rpm_database: bool,
    /// Further files.
    files: Vec<(String, String)>,
}

impl Os {
    #[must_use]
    pub fn new(number: u32) -> Self {
        Self {
            number,
            selinux: None,
            bootable: true,
            broken: false,
            links: Vec::new(),
            agent: None,
            has_rpm_database: false,
            files: Vec::new(),
        }
    }

    /// Add a small SELinux policy, sufficient to look up labels.
    #[must_use]
    pub fn with_selinux(self) -> Self {
        self.with_policy(PolicyPaths::Fedora)
    }

    /// Add a small SELinux policy with these substitutions.
    #[must_use]
    pub fn with_policy(self, paths: PolicyPaths) -> Self {
        Self { selinux: Some(paths), ..self }
    }

    /// Omit the kernel, and the label that marks the image as bootable.
    #[must_use]
    pub fn without_kernel(self) -> Self {
        Self { bootable: false, ..self }
    }

    /// Make `/usr/bin/true` fail, by which rpm-ostreed rejects an image after it has staged it.
    #[must_use]
    pub fn broken(self) -> Self {
        Self { broken: true, ..self }
    }

    /// Link a directory in `/` to one in `/var`.
    #[must_use]
    pub fn linking(mut self, name: &'static str) -> Self {
        self.links.push(name);
        self
    }

    /// Ship the agent in `/usr` with units that name this version, enabled or not.
    #[must_use]
    pub fn with_agent(self, version: &str, enabled: bool) -> Self {
        Self { agent: Some(ShippedAgent { version: version.to_owned(), enabled }), ..self }
    }

    /// Add an RPM database, for packages with the real rpm-ostreed.
    #[must_use]
    pub fn with_rpm_database(self) -> Self {
        Self { has_rpm_database: true, ..self }
    }

    /// Add a text file, such as `usr/etc/motd`.
    #[must_use]
    pub fn with_file(mut self, path: &str, text: &str) -> Self {
        self.files.push((path.to_owned(), text.to_owned()));
        self
    }

    /// Version in the image's label and in `os-release`.
    #[must_use]
    pub fn version(&self) -> String {
        format!("43.202601{:02}.3.0", self.number)
    }

    /// Release of the kernel.
    #[must_use]
    pub fn kernel(&self) -> String {
        format!("6.17.{}-300.fc43.x86_64", self.number)
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn has_selinux(&self) -> bool {
        self.selinux.is_some()
    }

    pub(crate) fn is_bootable(&self) -> bool {
        self.bootable
    }

    /// Write the tree below a new directory.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, root: &Path) -> anyhow::Result<()> {
        write_toplevel(root)?;
        for name in &self.links {
            symlink(format!("var/{name}"), root.join(name)).with_context(|| format!("linking {name}"))?;
        }
        for (path, contents) in self.files() {
            write(root, &path, contents.as_bytes(), 0o644)?;
        }
        write(root, "usr/etc/shadow", SHADOW.as_bytes(), 0)?;
        write(root, "usr/etc/gshadow", GSHADOW.as_bytes(), 0)?;
        write(root, "usr/bin/true", &programs::exiting_with(u8::from(self.broken)), 0o755)?;
        if self.bootable {
            let modules = format!("usr/lib/modules/{}", self.kernel());
            write(root, &format!("{modules}/vmlinuz"), &self.noise(1), 0o755)?;
            write(root, &format!("{modules}/initramfs.img"), &self.noise(2), 0o600)?;
        }
        units::write(root)?;
        if self.has_rpm_database {
            rpm_database::write_database(root)?;
        }
        if let Some(agent) = &self.agent {
            agent.write(root)?;
        }
        if let Some(paths) = self.selinux {
            for (path, contents) in SELINUX {
                write(root, path, contents.replace("HOME_ROOT", paths.home()).as_bytes(), 0o644)?;
            }
            write(root, SUBSTITUTIONS, paths.substitutions().as_bytes(), 0o644)?;
        }
        Ok(())
    }

    fn files(&self) -> Vec<(String, String)> {
        let mut files: Vec<_> =
            FILES.iter().map(|(path, contents)| ((*path).to_owned(), (*contents).to_owned())).collect();
        files.push(("usr/lib/os-release".into(), self.os_release()));
        files.push(("usr/etc/chrony.conf".into(), format!("{CHRONY}maxsamples {}\n", 8 + self.number)));
        files.push((
            format!("usr/etc/os/version-{}.conf", self.number),
            format!("# Shipped with version {} alone.\n", self.number),
        ));
        files.extend(self.files.iter().cloned());
        files
    }

    fn os_release(&self) -> String {
        let version = self.version();
        format!(
            "NAME=\"Fedora Linux\"\nVERSION=\"{version} (CoreOS)\"\nID=fedora\nVERSION_ID=43\nVARIANT=\"CoreOS\"\n\
             VARIANT_ID=coreos\nPLATFORM_ID=\"platform:f43\"\nPRETTY_NAME=\"Fedora CoreOS {version}\"\n\
             OSTREE_VERSION='{version}'\n"
        )
    }

    /// Incompressible bytes that differ between versions, generated by xorshift.
    fn noise(&self, seed: u64) -> Vec<u8> {
        let mut state = (u64::from(self.number) << 8 | seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let words = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        words.take(KERNEL_SIZE / 8).flatten().collect()
    }
}

/// Directories at the top. Some stay empty: a test that runs programs in the tree mounts programs and
/// libraries there.
const TOPLEVEL: [&str; 13] = [
    "boot",
    "dev",
    "proc",
    "run",
    "sys",
    "sysroot",
    "tmp",
    "usr/bin",
    "usr/lib",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib64",
    "usr/sbin",
    "var",
];

/// Create the directories and links at the top of a CoreOS tree, in the layout of OSTree.
fn write_toplevel(root: &Path) -> anyhow::Result<()> {
    for directory in TOPLEVEL {
        fs::create_dir_all(root.join(directory))?;
    }
    for (link, target) in [
        ("bin", "usr/bin"),
        ("lib", "usr/lib"),
        ("lib64", "usr/lib64"),
        ("sbin", "usr/sbin"),
        ("home", "var/home"),
        ("root", "var/roothome"),
        ("opt", "var/opt"),
        ("srv", "var/srv"),
        ("mnt", "var/mnt"),
        ("ostree", "sysroot/ostree"),
        ("usr/local", "../var/usrlocal"),
    ] {
        symlink(target, root.join(link)).with_context(|| format!("linking {link}"))?;
    }
    fs::create_dir_all(root.join("usr/etc"))?;
    symlink("../usr/lib/os-release", root.join("usr/etc/os-release"))?;
    Ok(())
}

/// Write a file and the directories above it, with this mode independently of the umask.
pub(crate) fn write(root: &Path, path: &str, contents: &[u8], mode: u32) -> anyhow::Result<()> {
    let file = root.join(path);
    let written = file
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&file, contents))
        .and_then(|()| fs::set_permissions(&file, fs::Permissions::from_mode(mode)));
    written.with_context(|| format!("writing {path}"))
}

const SHADOW: &str = "root:*:20000::::::\ncore:*:20000:0:99999:7:::\n";
const GSHADOW: &str = "root:::\nwheel:::core\ncore:::\n";
const CHRONY: &str =
    "pool 2.fedora.pool.ntp.org iburst\ndriftfile /var/lib/chrony/drift\nmakestep 1.0 3\nrtcsync\n";

/// Packages of the image. The stand-in for rpm-ostreed reads the list in place of an RPM database.
pub(crate) const PACKAGES: (&str, &str) = (
    "usr/share/packages.list",
    "chrony\nkernel\nkernel-core\nkernel-modules\nkernel-modules-core\nkernel-modules-extra\nsystemd\n",
);

const FILES: [(&str, &str); 15] = [
    PACKAGES,
    (
        "usr/etc/passwd",
        "root:x:0:0:root:/root:/bin/bash\ncore:x:1000:1000:CoreOS Admin:/var/home/core:/bin/bash\n",
    ),
    ("usr/etc/group", "root:x:0:\nwheel:x:10:core\ncore:x:1000:\n"),
    (
        "usr/lib/passwd",
        "bin:x:1:1:bin:/bin:/usr/sbin/nologin\ndbus:x:81:81:System Message Bus:/:/usr/sbin/nologin\n\
         rpc:x:32:32:Rpcbind Daemon:/var/lib/rpcbind:/usr/sbin/nologin\nsshd:x:74:74:sshd:/usr/share/empty.sshd:/usr/sbin/nologin\n\
         chrony:x:994:992:chrony:/var/lib/chrony:/sbin/nologin\nopenvswitch:x:800:800:openvswitch:/:/sbin/nologin\n\
         nobody:x:65534:65534:Kernel Overflow User:/:/usr/sbin/nologin\n",
    ),
    (
        "usr/lib/group",
        "bin:x:1:\nsys:x:3:\nadm:x:4:\nsystemd-journal:x:190:\ndbus:x:81:\nrpc:x:32:\nsshd:x:74:\nchrony:x:992:\n\
         openvswitch:x:800:\nhugetlbfs:x:801:openvswitch\nnobody:x:65534:\n",
    ),
    (
        "usr/etc/nsswitch.conf",
        "passwd: files altfiles systemd\ngroup: files altfiles systemd\nhosts: files dns myhostname\n",
    ),
    ("usr/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("usr/etc/crio/crio.conf", "[crio]\n\n[crio.runtime]\nselinux = true\n"),
    ("usr/etc/sysctl.conf", "# See sysctl.d(5).\n"),
    ("usr/etc/ssh/sshd_config", "Include /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\n"),
    (
        "usr/etc/ssh/sshd_config.d/40-ssh-key-dir.conf",
        "AuthorizedKeysCommand /usr/libexec/ssh-key-dir %u\nAuthorizedKeysCommandUser root\n",
    ),
    (
        "usr/etc/containers/registries.conf",
        "unqualified-search-registries = [\"registry.fedoraproject.org\", \"quay.io\"]\n",
    ),
    ("usr/etc/containers/policy.json", "{\"default\": [{\"type\": \"insecureAcceptAnything\"}]}\n"),
    ("usr/etc/systemd/system.conf", "[Manager]\n"),
    (
        "usr/lib/tmpfiles.d/rpm-ostree-1-autovar.conf",
        "d /var/home 0755 root root - -\nd /var/usrlocal 0755 root root - -\nd /var/opt 0755 root root - -\n",
    ),
];

/// SELinux policy. `policy.31` is only hashed, never loaded; label lookups read `file_contexts`.
const SELINUX: [(&str, &str); 3] = [
    ("usr/etc/selinux/config", "SELINUX=enforcing\nSELINUXTYPE=targeted\n"),
    ("usr/etc/selinux/targeted/policy/policy.31", "not a policy\n"),
    (
        "usr/etc/selinux/targeted/contexts/files/file_contexts",
        "/.*\tsystem_u:object_r:default_t:s0\n\
         /\t-d\tsystem_u:object_r:root_t:s0\n\
         /boot(/.*)?\tsystem_u:object_r:boot_t:s0\n\
         /etc(/.*)?\tsystem_u:object_r:etc_t:s0\n\
         /etc/shadow.*\t--\tsystem_u:object_r:shadow_t:s0\n\
         /etc/kubernetes(/.*)?\tsystem_u:object_r:kubernetes_file_t:s0\n\
         /etc/systemd/system(/.*)?\tsystem_u:object_r:systemd_unit_file_t:s0\n\
         /run(/.*)?\t<<none>>\n\
         /usr(/.*)?\tsystem_u:object_r:usr_t:s0\n\
         /usr/lib/systemd/system(/.*)?\tsystem_u:object_r:systemd_unit_file_t:s0\n\
         /var(/.*)?\tsystem_u:object_r:var_t:s0\n\
         /etc/nmstate(/.*)?\tsystem_u:object_r:nmstate_etc_t:s0\n\
         /opt(/.*)?\tsystem_u:object_r:usr_t:s0\n\
         /root(/.*)?\tsystem_u:object_r:admin_home_t:s0\n\
         /root/\\.ssh(/.*)?\tsystem_u:object_r:ssh_home_t:s0\n\
         /usr/local/s?bin(/.*)?\tsystem_u:object_r:bin_t:s0\n\
         /var/lib/kubelet(/.*)?\tsystem_u:object_r:container_var_lib_t:s0\n\
         HOME_ROOT\t-d\tsystem_u:object_r:home_root_t:s0\n\
         HOME_ROOT/[^/]+\t-d\tsystem_u:object_r:user_home_dir_t:s0\n\
         HOME_ROOT/[^/]+/.+\tsystem_u:object_r:user_home_t:s0\n\
         HOME_ROOT/[^/]+/\\.ssh(/.*)?\tsystem_u:object_r:ssh_home_t:s0\n",
    ),
];

const SUBSTITUTIONS: &str = "usr/etc/selinux/targeted/contexts/files/file_contexts.subs_dist";
