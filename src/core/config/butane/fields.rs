//! Fields of a Butane config. Once nothing is left that names a local file, an Ignition config has the same fields, in another
//! spelling. Sections that are refused are values.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ButaneConfig {
    #[serde(rename = "variant")]
    _variant: Value,
    #[serde(rename = "version")]
    _version: Value,
    pub(super) metadata: Option<Map<String, Value>>,
    pub(super) openshift: Option<OpenShiftSection>,
    pub(super) ignition: Map<String, Value>,
    pub(super) kernel_arguments: Option<ArgumentsSection>,
    pub(super) passwd: PasswdSection,
    pub(super) storage: StorageSection,
    pub(super) systemd: SystemdSection,
    pub(super) boot_device: Value,
    pub(super) grub: Value,
}

/// Fields of a MachineConfig beside its Ignition config.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all(serialize = "camelCase"))]
pub(super) struct OpenShiftSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fips: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kernel_arguments: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extensions: Vec<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all(serialize = "camelCase"))]
pub(super) struct ArgumentsSection {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    should_exist: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    should_not_exist: Vec<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PasswdSection {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) users: Vec<UserFields>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<GroupFields>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all(serialize = "camelCase"))]
pub(super) struct UserFields {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_hash: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ssh_authorized_keys: Vec<String>,
    #[serde(skip_serializing)]
    pub(super) ssh_authorized_keys_local: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gecos: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    home_dir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_create_home: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_log_init: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_user_group: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    primary_group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shell: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    should_exist: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<i64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all(serialize = "camelCase"))]
pub(super) struct GroupFields {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    should_exist: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<bool>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StorageSection {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) files: Vec<FileFields>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) directories: Vec<DirectoryFields>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) links: Vec<LinkFields>,
    #[serde(skip_serializing)]
    pub(super) trees: Vec<TreeFields>,
    #[serde(skip_serializing)]
    pub(super) disks: Value,
    #[serde(skip_serializing)]
    pub(super) raid: Value,
    #[serde(skip_serializing)]
    pub(super) filesystems: Value,
    #[serde(skip_serializing)]
    pub(super) luks: Value,
}

/// Owner of a file, by number or name.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct OwnerFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct FileFields {
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) overwrite: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<OwnerFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<OwnerFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) contents: Option<ResourceFields>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) append: Vec<ResourceFields>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct DirectoryFields {
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overwrite: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<OwnerFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<OwnerFields>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LinkFields {
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hard: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) overwrite: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<OwnerFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<OwnerFields>,
}

/// Directory of local files that are put below a path.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct TreeFields {
    pub(super) local: String,
    pub(super) path: Option<String>,
}

/// Contents of a file, from one of three places.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all(serialize = "camelCase"))]
pub(super) struct ResourceFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    #[serde(skip_serializing)]
    pub(super) inline: Option<String>,
    #[serde(skip_serializing)]
    pub(super) local: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compression: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) http_headers: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verification: Option<VerificationFields>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct VerificationFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SystemdSection {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) units: Vec<UnitFields>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct UnitFields {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) contents: Option<String>,
    #[serde(skip_serializing)]
    pub(super) contents_local: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) dropins: Vec<DropInFields>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct DropInFields {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) contents: Option<String>,
    #[serde(skip_serializing)]
    pub(super) contents_local: Option<String>,
}
