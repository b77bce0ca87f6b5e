//! Decoding of the fields about the operating system: images, kernel and extensions.

use crate::core::config::extensions;
use crate::core::config::host_config::{KernelType, OsSpec};
use crate::core::config::machine_config::MachineConfig;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::core::values::paths::GENERATION_ARGUMENT;
use crate::core::values::refusal::Refusal;

/// Decode the fields; errors are added to `refused`.
pub(super) fn decode(config: &MachineConfig, refused: &mut Vec<Refusal>) -> OsSpec {
    let spec = &config.spec;
    let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let kernel_type = spec.kernel_type.as_deref().unwrap_or_default();
    if !matches!(kernel_type, "" | "default" | "realtime" | "64k-pages") {
        refused.push(Refusal::new(
            "spec.kernelType",
            "unknown kernel type; accepted: default, realtime, 64k-pages",
        ));
    }
    let images = [
        ("spec.osImageURL", &spec.os_image_url),
        ("spec.baseOSExtensionsContainerImage", &spec.base_os_extensions_container_image),
    ];
    for (field, _) in
        images.iter().filter(|(_, image)| image.iter().any(|text| text.contains(char::is_control)))
    {
        refused.push(Refusal::new(*field, "the image reference has a control character"));
    }
    let entries = spec.kernel_arguments.as_deref().unwrap_or_default();
    for (index, entry) in entries.iter().enumerate() {
        if entry.chars().any(|c| c.is_control() && c != '\t') {
            let field = format!("spec.kernelArguments[{index}]");
            refused.push(Refusal::new(field, "the kernel argument has a control character"));
            continue;
        }
        let owned = ["ostree=", GENERATION_ARGUMENT];
        let arguments = KernelArguments::parse(entry);
        if let Some(own) =
            owned.iter().find(|own| arguments.iter().any(|argument| argument.as_str().starts_with(*own)))
        {
            let field = format!("spec.kernelArguments[{index}]");
            refused.push(Refusal::new(
                field,
                format!("`{own}` is set for each deployment and must not be listed"),
            ));
        } else if entry.matches('"').count() % 2 == 1 {
            let field = format!("spec.kernelArguments[{index}]");
            refused.push(Refusal::new(field, "a double quote is not closed"));
        }
    }
    OsSpec {
        image: filled(&spec.os_image_url),
        extensions_image: filled(&spec.base_os_extensions_container_image),
        kernel_arguments: KernelArguments::parse_all(entries),
        kernel_type: KernelType::canonical(kernel_type),
        extensions: spec.extensions.clone().unwrap_or_default(),
        fips: spec.fips.unwrap_or(false),
    }
}

/// List the extensions that this release does not know, and whose packages it cannot install therefore.
pub(super) fn unknown_extensions(config: &MachineConfig) -> impl Iterator<Item = Refusal> {
    let listed = config.spec.extensions.iter().flatten().enumerate();
    listed.filter(|(_, name)| extensions::packages(name).is_none()).map(|(index, _)| {
        let reason = format!("unknown extension; accepted: {}", extensions::accepted());
        Refusal::new(format!("spec.extensions[{index}]"), reason)
    })
}
