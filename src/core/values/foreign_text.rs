//! Text of others in messages: names and values of a config, paths, output of programs, errors of libraries.
//! Characters that steer a terminal, hide text or change its direction are replaced, so that no such text can forge
//! a message.

use std::borrow::Cow;

/// Replace every character that steers a terminal, changes the direction of text or is invisible. Line feeds and
/// tabs stay.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    replaced(text, |layout| layout)
}

/// Replace the characters of [`harmless`], and line feeds and tabs by spaces: text for one line.
#[must_use]
pub fn harmless_line(text: &str) -> Cow<'_, str> {
    replaced(text, |_| ' ')
}

/// Escape the characters of [`harmless`] in a JSON text, where they can only be in strings.
#[must_use]
pub fn escaped_json(text: &str) -> Cow<'_, str> {
    let is_escaped = |character: char| character != '\n' && is_harmful(character);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_escaped(character) {
            let units = &mut [0; 2];
            for unit in character.encode_utf16(units) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Replace the harmful characters; `layout` tells the one that stands for a line feed or a tab.
fn replaced(text: &str, layout: impl Fn(char) -> char) -> Cow<'_, str> {
    let shown = |character| match character {
        '\n' | '\t' => layout(character),
        _ if is_harmful(character) => char::REPLACEMENT_CHARACTER,
        _ => character,
    };
    if text.chars().all(|character| shown(character) == character) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(shown).collect())
}

fn is_harmful(character: char) -> bool {
    character.is_control() || is_directional(character) || is_invisible(character)
}

/// Marks, embeddings, overrides and isolates of the Unicode bidirectional algorithm (UAX #9), which reorder the text
/// around them.
fn is_directional(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Characters without a glyph: two texts that differ in them look the same.
fn is_invisible(character: char) -> bool {
    matches!(character,
        // Soft hyphen, joiners, fillers.
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}'
        // Mongolian selectors, zero-width characters, line and paragraph separator.
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}'
        // Invisible operators, byte order mark, annotations, variation selectors.
        | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{fe00}'..='\u{fe0f}'
        // Tags and further selectors.
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steering_and_invisible_characters_are_replaced() {
        for (text, shown) in [
            ("a\tb\n", "a\tb\n"),
            ("größer → 日本", "größer → 日本"),
            ("\x1b[1;31mred\x1b[0m", "\u{fffd}[1;31mred\u{fffd}[0m"),
            ("\x1b[2J\x07", "\u{fffd}[2J\u{fffd}"),
            ("\u{9b}31m", "\u{fffd}31m"),
            ("\u{202e}txt\u{61c}", "\u{fffd}txt\u{fffd}"),
            ("root\u{200b}\u{feff}", "root\u{fffd}\u{fffd}"),
            ("\u{e0041}", "\u{fffd}"),
            ("r\rx", "r\u{fffd}x"),
        ] {
            assert_eq!(harmless(text), shown, "{text:?}");
        }
        assert_eq!(harmless_line("a\nState: Done"), "a State: Done");
        let text = serde_json::to_string(&["a\u{9b}\u{202e}\u{e0041}"]).unwrap();
        let escaped = escaped_json(&text);
        assert_eq!(escaped, "[\"a\\u009b\\u202e\\udb40\\udc41\"]");
        assert_eq!(serde_json::from_str::<[String; 1]>(&escaped).unwrap(), ["a\u{9b}\u{202e}\u{e0041}"]);
    }
}
