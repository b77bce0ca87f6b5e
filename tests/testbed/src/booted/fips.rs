//! FIPS mode of a host's kernel.

use std::fs;

use crate::booted::config::full_config;
use crate::booted::host::{Host, confirmed_host};

impl Host {
    /// Give the kernel a FIPS mode, and switch it on or off.
    pub fn set_fips_mode(&self, mode: bool) {
        let [crypto, random] = ["crypto", "kernel/random"].map(|part| self.path("kernel/sys").join(part));
        for directory in [&crypto, &random] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(crypto.join("fips_enabled"), if mode { "1\n" } else { "0\n" }).unwrap();
        fs::write(random.join("boot_id"), "").unwrap();
    }
}

/// Host with a confirmed generation whose config is for FIPS mode, on a kernel that is not in it: the machine was started
/// with another kernel argument.
pub fn confirmed_host_out_of_fips_mode(text: &str) -> Host {
    let host = confirmed_host(text);
    host.set_fips_mode(true);
    let config = host.config(full_config(text).fips(true).json());
    assert_eq!(host.apply(&config, None).code, Some(0));
    host.assert_no_drift();
    host.set_fips_mode(false);
    host
}
