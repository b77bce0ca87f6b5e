//! The same thing asked for again.

use flameholder::core::config::layering::LayeringChange;
use flameholder::os::rpm_ostree::failure::RpmOstreeFailure;
use flameholder::os::rpm_ostree::transaction::RpmOstreeOutcome;
use flameholder::os::rpm_ostree::{LayerBase, LayerRequest};
use osimage::Os;
use rpmostreed::Faults;

use crate::rpm_ostree::client::{Seen, heard, nothing};

#[test]
fn what_is_there_is_said_to_be() {
    let seen = Seen::new(&Faults::default());
    seen.runtime.block_on(async {
        let (outcome, said) = seen.asked(&nothing()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(heard(&said, "No change."), "{said:?}");
        assert!(!seen.host.is_staged());
        let rebase = seen.rebase();
        assert_eq!(seen.asked(&rebase).await.0.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(seen.host.is_staged());
        let RpmOstreeOutcome::Failed(text) = seen.asked(&rebase).await.0.unwrap() else {
            panic!("it is staged already")
        };
        assert_eq!(RpmOstreeFailure::of(&text.to_string(), rebase.image()), RpmOstreeFailure::RefsEqual);
        // What is staged follows the image, and there is nothing newer by that name.
        let follow = LayerRequest { base: LayerBase::BootedImageName, ..nothing() };
        let (outcome, said) = seen.asked(&follow).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(heard(&said, "No upgrade available."), "{said:?}");
    });
}

#[test]
fn another_name_for_an_image_stages_it_and_fetches_nothing() {
    let seen = Seen::new(&Faults::default());
    let same = seen.host.path("media/same");
    let tag = Os::new(2).version();
    osimage::write_image(&Os::new(2), &same, Some(&tag)).unwrap();
    seen.runtime.block_on(async {
        assert_eq!(seen.asked(&seen.rebase()).await.0.unwrap(), RpmOstreeOutcome::Succeeded);
        let image = format!("ostree-unverified-image:oci:/run/media/same:{tag}").parse().unwrap();
        let (outcome, said) = seen.asked(&LayerRequest { base: LayerBase::Image(image), ..nothing() }).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(heard(&said, "ostree chunk layers needed: 0 "), "{said:?}");
    });
}

#[test]
fn packages_that_are_there_are_not_asked_for_twice() {
    let seen = Seen::new(&Faults::default());
    crate::rpm_ostree::packages::offer(&seen.host, &["usbguard"]);
    let change = LayeringChange { install: vec!["usbguard".into()], ..LayeringChange::default() };
    let request = LayerRequest { change, ..nothing() };
    seen.runtime.block_on(async {
        assert_eq!(seen.asked(&request).await.0.unwrap(), RpmOstreeOutcome::Succeeded);
        let (outcome, said) = seen.asked(&request).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(heard(&said, "No change."), "{said:?}");
    });
}
