//! flameholder-phases(7): phases of the daemon and events of the history, as the message catalog explains them.

use flameholder::core::daemon::message_catalog::{self, MessageExplanation};
use roff::Roff;

use crate::GeneratedFile;
use crate::page::{begin, continued, file, heading, item, paragraph, see_also};

const NAME: &str = "flameholder-phases";
const SECTION: &str = "7";

pub(crate) fn page() -> GeneratedFile {
    let mut page = begin(NAME, SECTION, "phases of the flameholder daemon, and events of its history");
    heading(&mut page, "DESCRIPTION");
    paragraph(
        &mut page,
        "The daemon is in one phase at a time. `flameholder status`, the metric `flameholder_phase` and the journal field \
        `FLAMEHOLDER_PHASE` name it. Each entry of the journal has a message ID, by which `journalctl MESSAGE_ID=ID` finds all \
        of its kind, and `journalctl --catalog` explains it. Words such as `FLAMEHOLDER_REASON` below stand for fields of the \
        entry, which `journalctl -o verbose` shows.",
    );
    heading(&mut page, "PHASES");
    explain(&mut page, &message_catalog::phases());
    heading(&mut page, "EVENTS");
    paragraph(&mut page, "`flameholder history` lists these events, which are in the journal as well.");
    explain(&mut page, &message_catalog::events());
    see_also(
        &mut page,
        &[
            ("flameholder", "8"),
            ("flameholder-status", "8"),
            ("flameholder-history", "8"),
            ("journalctl", "1"),
        ],
    );
    file(NAME, SECTION, page.to_roff())
}

fn explain(page: &mut Roff, explanations: &[(&str, &MessageExplanation)]) {
    for (id, explanation) in explanations {
        let text = explanation.text.replace('\n', " ");
        item(page, explanation.about, &fields_marked(&format!("{}. {text}", explanation.subject)));
        continued(page, &format!("Message ID `{id}`."));
    }
}

/// Mark fields of an entry, for which the catalog has `@FIELD@`.
fn fields_marked(text: &str) -> String {
    text.split('@')
        .enumerate()
        .map(|(index, part)| if index % 2 == 1 { format!("`{part}`") } else { part.to_owned() })
        .collect()
}
