//! Characters that the terminal shows: all of Unicode where the locale has UTF-8, else ASCII.

use std::borrow::Cow;
use std::sync::LazyLock;

/// Variables that name the locale of characters, the strongest first (locale(7)).
const LOCALE: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

static HAS_UNICODE: LazyLock<bool> = LazyLock::new(|| {
    let named = LOCALE.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty());
    named.is_some_and(|locale| is_utf8(&locale))
});

/// Return the text as it can be shown: in a locale without UTF-8, with ASCII in place of other characters.
pub(crate) fn in_locale(text: &str) -> Cow<'_, str> {
    if *HAS_UNICODE { Cow::Borrowed(text) } else { in_ascii(text) }
}

/// Compare the part behind the dot of a locale such as `de_DE.UTF-8@euro`.
fn is_utf8(locale: &str) -> bool {
    let codeset = locale.split('@').next().and_then(|name| name.split_once('.'));
    codeset.is_some_and(|(_, codeset)| ["utf-8", "utf8"].contains(&codeset.to_ascii_lowercase().as_str()))
}

/// Replace signs of ours by similar ones, and other characters by their escapes, which keep names apart.
fn in_ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut ascii = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '→' => ascii.push_str("->"),
            '…' => ascii.push_str("..."),
            '●' => ascii.push('*'),
            char::REPLACEMENT_CHARACTER => ascii.push('?'),
            character if character.is_ascii() => ascii.push(character),
            character => ascii.extend(character.escape_unicode()),
        }
    }
    Cow::Owned(ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locale_names_its_character_set() {
        for (locale, expected) in [
            ("C.UTF-8", true),
            ("de_DE.utf8@euro", true),
            ("de_DE.ISO-8859-1", false),
            ("C", false),
            ("POSIX", false),
            ("UTF-8", false),
        ] {
            assert_eq!(is_utf8(locale), expected, "{locale}");
        }
    }

    #[test]
    fn text_without_unicode_keeps_names_apart() {
        assert_eq!(in_ascii("a → b…"), "a -> b...");
        assert_eq!(in_ascii("● /etc/é, /etc/ö \u{fffd}"), r"* /etc/\u{e9}, /etc/\u{f6} ?");
        assert!(matches!(in_ascii("plain"), Cow::Borrowed("plain")));
    }
}
