//! Kernel arguments: tables of known cases, and properties of arbitrary lines.

use flameholder::core::values::kernel_arguments::{KernelArgument, KernelArguments};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn parse(line: &str) -> KernelArguments {
    KernelArguments::parse(line)
}

fn words(arguments: &[KernelArgument]) -> Vec<&str> {
    arguments.iter().map(KernelArgument::as_str).collect()
}

#[test]
fn lines_are_split_like_the_kernel_splits_them() {
    for (line, expected) in [
        ("", &[][..]),
        (" \t\n", &[]),
        (" a=b  c\td\u{b}e ", &["a=b", "c", "d", "e"]),
        (r#" bar="hello world" "#, &[r#"bar="hello world""#]),
        (r#""bar=hello world" baz"#, &[r#""bar=hello world""#, "baz"]),
        (r#"a"b c"d e"#, &[r#"a"b c"d"#, "e"]),
        (r#"a="" b"#, &[r#"a="""#, "b"]),
        (r#"a=\" b" c"#, &[r#"a=\" b""#, "c"]),
        (r#"a "b c  d"#, &["a", r#""b c  d"#]),
        ("a='b c'", &["a='b", "c'"]),
        ("caf\u{e9}\u{a0}x y", &["caf\u{e9}\u{a0}x", "y"]),
    ] {
        assert_eq!(words(&parse(line)), expected, "{line:?}");
    }
}

#[test]
fn only_whole_arguments_are_decoded() {
    let decode = |text: &str| serde_json::from_value::<KernelArguments>(serde_json::json!(["rw", text]));
    for text in ["", "two arguments", " space", "line\nfeed"] {
        assert!(decode(text).unwrap_err().to_string().contains("not one kernel argument"), "{text:?}");
    }
    for text in ["quiet", r#"dyndbg="file a +p""#, r#"open="quote"#] {
        let decoded = decode(text).unwrap();
        assert_eq!(words(&decoded), ["rw", text]);
        assert_eq!(serde_json::to_value(&decoded).unwrap(), serde_json::json!(["rw", text]));
    }
}

#[test]
fn desired_arguments_replace_current_ones() {
    const HUGE: &str = "hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=4";
    for (existing, current, desired, expected) in [
        ("root=x", &[][..], &["a=b"][..], "root=x a=b"),
        ("root=x a=b", &["a=b"], &[], "root=x"),
        ("foo root=x bar=1 h=w", &["foo", "bar=1", "h=w"], &["h=w"], "root=x h=w"),
        (
            "foo bar=1 hello=world baz root=x",
            &["foo", "bar=1 hello=world", "baz"],
            &["foo", "bar=1", "hello=world"],
            "root=x foo bar=1 hello=world",
        ),
        ("root=x", &[], &[r#" baz=test bar="hello world""#], r#"root=x baz=test bar="hello world""#),
        ("root=x", &[], &[HUGE], "root=x hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=4"),
        (
            "root=x hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=4 quiet",
            &[HUGE],
            &["hugepagesz=2M hugepages=4"],
            "root=x quiet hugepagesz=2M hugepages=4",
        ),
        ("a root=x b rw", &["a b"], &["a b"], "a root=x b rw"),
        ("a root=x b rw", &["a b"], &["b a"], "root=x rw b a"),
        ("a root=x", &["a"], &["a a"], "root=x a a"),
        ("a a root=x", &["a a"], &["a"], "root=x a"),
        ("quiet root=x quiet", &["quiet"], &[], "quiet root=x"),
        ("quiet root=x", &[], &["quiet"], "quiet root=x"),
        ("quiet root=x quiet", &[], &["quiet"], "root=x quiet"),
        ("a root=x", &["a", "gone"], &["a"], "a root=x"),
    ] {
        let [current, desired] = [current, desired].map(KernelArguments::parse_all);
        let applied = parse(existing).updated(&current, &desired);
        assert_eq!(words(&applied).join(" "), expected, "{existing:?}: {current:?} to {desired:?}");
    }
}

#[test]
fn verification_checks_counts_and_order() {
    for (running, desired, expected) in [
        ("BOOT_IMAGE=x a b=1 rw c", "a b=1 c", &[][..]),
        ("a b c", "b a", &["a"]),
        ("a b", "a b a", &["a"]),
        ("a a b", "a b a", &["a"]),
        ("a b a", "a b a", &[]),
        ("a b", "c", &["c"]),
        ("a a", "a", &[]),
        (r#"x="1 2""#, "x=1", &["x=1"]),
        ("", "", &[]),
    ] {
        assert_eq!(words(&parse(running).missing(&parse(desired))), expected, "{desired:?} in {running:?}");
    }
}

fn line(words: &'static [&'static str], most: usize) -> impl Strategy<Value = KernelArguments> {
    vec(select(words), 0..=most).prop_map(|words| parse(&words.join(" ")))
}

fn none() -> KernelArguments {
    KernelArguments::default()
}

/// Few words, so that lists overlap and repeat.
const WORDS: &[&str] = &["a", "b", "c=1", "c=2", "d=\"x y\""];

/// Arguments that no config lists.
const FOREIGN: &[&str] = &["root=x", "rw", "quiet", "tuned"];

fn any_line() -> impl Strategy<Value = KernelArguments> {
    (line(WORDS, 6), line(FOREIGN, 4))
        .prop_map(|lines| [lines.0.to_vec(), lines.1.to_vec()].concat())
        .prop_shuffle()
        .prop_map(KernelArguments::from_iter)
}

proptest! {
    #[test]
    fn parsing_a_joined_line_returns_its_arguments(arguments in any_line()) {
        prop_assert_eq!(&parse(&words(&arguments).join("  ")), &arguments);
    }

    #[test]
    fn desired_arguments_occur_as_listed(existing in any_line(), current in line(WORDS, 4), desired in line(WORDS, 4)) {
        let applied = existing.updated(&current, &desired);
        let listed: KernelArguments = applied.iter().filter(|argument| desired.contains(argument)).cloned().collect();
        prop_assert_eq!(&listed, &desired);
        prop_assert!(applied.missing(&desired).is_empty());
    }

    #[test]
    fn foreign_arguments_keep_their_order(existing in any_line(), current in line(WORDS, 4), desired in line(WORDS, 4)) {
        let is_foreign = |argument: &&KernelArgument| FOREIGN.contains(&argument.as_str());
        let applied = existing.updated(&current, &desired);
        let before: Vec<_> = existing.iter().filter(is_foreign).collect();
        let after: Vec<_> = applied.iter().filter(is_foreign).collect();
        prop_assert_eq!(before, after);
    }

    #[test]
    fn stale_argument_is_removed_as_often_as_it_was_listed(existing in any_line(), current in line(WORDS, 4)) {
        let count = |list: &[KernelArgument], word| list.iter().filter(|argument| *argument == word).count();
        let applied = existing.updated(&current, &none());
        for word in existing.iter() {
            prop_assert_eq!(count(&applied, word), count(&existing, word).saturating_sub(count(&current, word)));
        }
    }

    #[test]
    fn applying_the_current_config_changes_nothing(existing in any_line(), current in line(WORDS, 4), desired in line(WORDS, 4)) {
        let applied = existing.updated(&current, &desired);
        prop_assert_eq!(&applied.updated(&desired, &desired), &applied);
    }

    #[test]
    fn applying_twice_equals_applying_once(foreign in line(FOREIGN, 4), current in line(WORDS, 4), desired in line(WORDS, 4)) {
        let existing = foreign.updated(&none(), &current);
        let applied = existing.updated(&current, &desired);
        prop_assert_eq!(&applied.updated(&current, &desired), &applied);
    }

    #[test]
    fn removing_all_desired_arguments_restores_the_foreign_ones(foreign in line(FOREIGN, 4), desired in line(WORDS, 4)) {
        let applied = foreign.updated(&none(), &desired);
        prop_assert_eq!(applied.updated(&desired, &none()), foreign);
    }

    #[test]
    fn nothing_is_missing_exactly_if_the_desired_list_is_contained(existing in any_line(), desired in line(WORDS, 3)) {
        let mut rest = existing.iter();
        let contains = desired.iter().all(|argument| rest.any(|present| present == argument));
        prop_assert_eq!(existing.missing(&desired).is_empty(), contains);
    }
}
