//! Images that are no operating system: artifacts of configs, the extensions image, release images.

pub(crate) mod artifact;
pub(crate) mod selected_files;
pub(crate) mod unpack;

/// Return the archive of a layer with these files.
#[cfg(test)]
fn layer(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap()
}
