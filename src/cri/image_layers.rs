//! Sizes of an image's layers, as its registry has them: by skopeo, which follows the mirrors of registries.conf.

use std::env::consts::ARCH;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use crate::core::pinned_images::image_manifest::ImageManifest;
use crate::core::pinned_images::pull_space::LayerSizes;
use crate::core::values::causes::chain;
use crate::core::values::foreign_text::harmless_line;

/// Longest time for the answer of a registry.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Longest output, in bytes.
const LONGEST_OUTPUT: u64 = 4 << 20;

/// Read the layers of an image at its registry, with the credentials in `pull_secret` if that file exists. Fails with the
/// reason, in one line.
pub async fn image_layers(image: &str, pull_secret: &Path) -> Result<LayerSizes, String> {
    let digest = match manifest(image, pull_secret).await? {
        ImageManifest::Layers(layers) => return Ok(layers),
        ImageManifest::Index(digest) => digest,
    };
    let repository = image.split_once('@').map_or(image, |(repository, _)| repository);
    match manifest(&format!("{repository}@{digest}"), pull_secret).await? {
        ImageManifest::Layers(layers) => Ok(layers),
        ImageManifest::Index(_) => Err("the index of platforms names another index".to_owned()),
    }
}

async fn manifest(image: &str, pull_secret: &Path) -> Result<ImageManifest, String> {
    let mut skopeo = Command::new("skopeo");
    // Its own limit as well: this process may be ended before.
    skopeo.args(["--command-timeout", "2m", "inspect", "--raw"]);
    if pull_secret.exists() {
        skopeo.arg("--authfile").arg(pull_secret);
    }
    skopeo.arg(format!("docker://{image}"));
    let output = tokio::time::timeout(TIMEOUT, output_of(skopeo)).await;
    let output = output.map_err(|_| format!("skopeo did not end within {} seconds", TIMEOUT.as_secs()))??;
    ImageManifest::parse(&output, ARCH)
}

async fn output_of(mut program: Command) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("skopeo: {}", chain(&error));
    let program = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.kill_on_drop(true).spawn().map_err(failed)?;
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let stdout = child.stdout.take().expect("the output is a pipe");
    let stderr = child.stderr.take().expect("the errors are a pipe");
    let read = async {
        let (mut stdout, mut stderr) = (stdout.take(LONGEST_OUTPUT), stderr.take(LONGEST_OUTPUT));
        tokio::try_join!(stdout.read_to_end(&mut output), stderr.read_to_end(&mut errors))
    };
    read.await.map_err(failed)?;
    let status = child.wait().await.map_err(failed)?;
    if status.success() {
        return Ok(output);
    }
    let errors = String::from_utf8_lossy(&errors);
    let last = errors.lines().next_back().unwrap_or_default();
    Err(format!("skopeo failed with {status}: {}", harmless_line(last)))
}
