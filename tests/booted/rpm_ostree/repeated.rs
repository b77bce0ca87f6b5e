//! Repeated requests.

use flameholder::core::config::layering::LayeringChange;
use flameholder::os::rpm_ostree::failure::RpmOstreeFailure;
use flameholder::os::rpm_ostree::transaction::RpmOstreeOutcome;
use flameholder::os::rpm_ostree::{LayerBase, LayerRequest};
use osimage::Os;
use rpmostreed::Faults;

use crate::rpm_ostree::client::{DaemonHost, has_message, unchanged};

#[test]
fn repeated_request_reports_no_change() {
    let fixture = DaemonHost::new(&Faults::default());
    fixture.runtime.block_on(async {
        let (outcome, events) = fixture.request(&unchanged()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(has_message(&events, "No change."), "{events:?}");
        assert!(!fixture.host.is_staged());
        let rebase = fixture.rebase();
        assert_eq!(fixture.request(&rebase).await.0.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(fixture.host.is_staged());
        let RpmOstreeOutcome::Failed(text) = fixture.request(&rebase).await.0.unwrap() else {
            panic!("the image is staged already")
        };
        assert_eq!(RpmOstreeFailure::of(&text.to_string(), rebase.image()), RpmOstreeFailure::RefsEqual);
        // The staged deployment follows the image's name, which has no newer image.
        let follow = LayerRequest { base: LayerBase::BootedImageName, ..unchanged() };
        let (outcome, events) = fixture.request(&follow).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(has_message(&events, "No upgrade available."), "{events:?}");
    });
}

#[test]
fn another_name_for_an_image_stages_it_without_fetching() {
    let fixture = DaemonHost::new(&Faults::default());
    let same = fixture.host.path("media/same");
    let tag = Os::new(2).version();
    osimage::write_image(&Os::new(2), &same, Some(&tag)).unwrap();
    fixture.runtime.block_on(async {
        assert_eq!(fixture.request(&fixture.rebase()).await.0.unwrap(), RpmOstreeOutcome::Succeeded);
        let image = format!("ostree-unverified-image:oci:/run/media/same:{tag}").parse().unwrap();
        let (outcome, events) =
            fixture.request(&LayerRequest { base: LayerBase::Image(image), ..unchanged() }).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(has_message(&events, "ostree chunk layers already present: "), "{events:?}");
        assert!(!has_message(&events, "layers needed"), "{events:?}");
    });
}

#[test]
fn installed_packages_are_not_requested_twice() {
    let fixture = DaemonHost::new(&Faults::default());
    crate::rpm_ostree::packages::offer(&fixture.host, &["usbguard"]);
    let change = LayeringChange { install: vec!["usbguard".into()], ..LayeringChange::default() };
    let request = LayerRequest { change, ..unchanged() };
    fixture.runtime.block_on(async {
        assert_eq!(fixture.request(&request).await.0.unwrap(), RpmOstreeOutcome::Succeeded);
        let (outcome, events) = fixture.request(&request).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(has_message(&events, "No change."), "{events:?}");
    });
}
