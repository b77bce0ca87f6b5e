//! One small set of unit files for each rule of enablement.

use std::collections::BTreeSet;

use crate::enablement::tree::Universe;

/// Comma-separated calls, and the blank-separated links after them; `!` if the last call is refused.
pub(super) struct Case {
    pub name: &'static str,
    files: &'static [(&'static str, &'static str)],
    presets: &'static str,
    calls: &'static str,
    leaves: &'static str,
}

impl Case {
    pub(super) fn universe(&self) -> Universe {
        let file = |&(path, contents): &(&str, &str)| {
            let literal = contents.is_empty() || contents.starts_with(['[', '-', '\u{feff}']);
            let section = if literal { "" } else { "[Install]\n" };
            (path.to_owned(), format!("{section}{contents}"))
        };
        Universe {
            files: self.files.iter().map(file).collect(),
            presets: self.presets.to_owned(),
            calls: self.calls.split(", ").map(str::to_owned).collect(),
        }
    }

    /// Names of the links after the calls; `None` if the last call is refused.
    pub(super) fn leaves(&self) -> Option<BTreeSet<&'static str>> {
        (self.leaves != "!").then(|| self.leaves.split_whitespace().collect())
    }
}

const fn case(
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    calls: &'static str,
    leaves: &'static str,
) -> Case {
    Case { name, files, presets: "", calls, leaves }
}

const fn preset(
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    presets: &'static str,
    calls: &'static str,
    leaves: &'static str,
) -> Case {
    Case { name, files, presets, calls, leaves }
}

const A: (&str, &str) = ("v/a.service", "WantedBy=m.target\n");
const B: (&str, &str) = ("v/b.service", "WantedBy=m.target\n");
const T: (&str, &str) = ("v/t@.service", "WantedBy=m.target\n");

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    // Links that `enable` makes.
    case("wanted", &[A], "enable a.service", "m.target.wants/a.service"),
    case("required", &[("v/a.service", "RequiredBy=m.target")], "enable a.service", "m.target.requires/a.service"),
    case("several names", &[("v/a.service", "WantedBy=m.target\tn.target")], "enable a.service", "m.target.wants/a.service n.target.wants/a.service"),
    case("wanted by an instance", &[("v/a.service", "WantedBy=n@z.target")], "enable a.service", "n@z.target.wants/a.service"),
    case("wanted by a template", &[("v/a.service", "WantedBy=n@.target")], "enable a.service", "n@.target.wants/a.service"),
    case("a unit of /etc", &[("e/a.service", "WantedBy=m.target")], "enable a.service", "m.target.wants/a.service"),
    case("/etc before /usr", &[A, ("e/a.service", "WantedBy=n.target")], "enable a.service", "n.target.wants/a.service"),
    case("/run before /usr", &[A, ("r/a.service", "WantedBy=n.target")], "enable a.service", "n.target.wants/a.service"),
    case("no [Install]", &[("v/a.service", "[Service]\n")], "enable a.service", ""),
    case("missing", &[], "enable a.service", "!"),
    case("not a unit name", &[("v/a.service", "WantedBy=nonsense")], "enable a.service", "!"),
    case("a mount", &[("v/a.mount", "WantedBy=m.target\nAlias=b.mount")], "enable a.mount", "m.target.wants/a.mount"),
    case("twice", &[A], "enable a.service, enable a.service", "m.target.wants/a.service"),
    // File format.
    case("white space around", &[("v/a.service", " [Install] \n\t WantedBy \t=  m.target  \n")], "enable a.service", "m.target.wants/a.service"),
    case("continuation", &[("v/a.service", "WantedBy=m.target \\\n  n.target\n")], "enable a.service", "m.target.wants/a.service n.target.wants/a.service"),
    case("comment in a continuation", &[("v/a.service", "WantedBy=m.target \\\n# no\n ; no\nn.target\n")], "enable a.service", "m.target.wants/a.service n.target.wants/a.service"),
    case("two backslashes", &[("v/a.service", "WantedBy=m.target\\\\\nRequiredBy=n.target\n")], "enable a.service", "!"),
    case("continuation at the end", &[("v/a.service", "WantedBy=m.target \\")], "enable a.service", "m.target.wants/a.service"),
    case("CR LF", &[("v/a.service", "[Install]\r\nWantedBy=m.target\r\n")], "enable a.service", "m.target.wants/a.service"),
    case("lone CR", &[("v/a.service", "WantedBy=m.target\rRequiredBy=n.target\r")], "enable a.service", "m.target.wants/a.service n.target.requires/a.service"),
    case("NUL", &[("v/a.service", "WantedBy=m.target\0\nRequiredBy=n.target")], "enable a.service", "m.target.wants/a.service n.target.requires/a.service"),
    case("byte order mark", &[("v/a.service", "\u{feff}[Install]\nWantedBy=m.target\n")], "enable a.service", "m.target.wants/a.service"),
    case("quotes", &[("v/a.service", "WantedBy=\"m.target\" 'n.target' o.'target'")], "enable a.service", "m.target.wants/a.service n.target.wants/a.service o.target.wants/a.service"),
    case("empty quotes", &[("v/a.service", "WantedBy=\"\" m.target")], "enable a.service", "!"),
    case("unbalanced quote", &[("v/a.service", "WantedBy=m.target \"n.target\nRequiredBy=o.target")], "enable a.service", "m.target.wants/a.service o.target.requires/a.service"),
    case("reset", &[("v/a.service", "WantedBy=m.target\nWantedBy=\nWantedBy=n.target")], "enable a.service", "n.target.wants/a.service"),
    case("other sections", &[("v/a.service", "WantedBy=m.target\n[X-Foo]\nWantedBy=n.target\n[Unit]\nWantedBy=o.target")], "enable a.service", "m.target.wants/a.service"),
    case("section twice", &[("v/a.service", "WantedBy=m.target\n[Unit]\n[Install]\nWantedBy=n.target")], "enable a.service", "m.target.wants/a.service n.target.wants/a.service"),
    case("before any section", &[("v/a.service", "[Bar]\n[ Install ]\nWantedBy=n.target\n")], "enable a.service", ""),
    case("lines that are none", &[("v/a.service", "nonsense\n=x\nWantedBy=m.target")], "enable a.service", "m.target.wants/a.service"),
    case("broken header", &[("v/a.service", "WantedBy=m.target\n[Unit\n")], "enable a.service", "!"),
    case("drop-in adds", &[A, ("e/a.service.d/x.conf", "WantedBy=n.target")], "enable a.service", "m.target.wants/a.service n.target.wants/a.service"),
    case("drop-in resets", &[A, ("v/a.service.d/x.conf", "WantedBy=\nWantedBy=n.target")], "enable a.service", "n.target.wants/a.service"),
    case("drop-in shadowed", &[A, ("v/a.service.d/x.conf", "WantedBy="), ("e/a.service.d/x.conf", "[Unit]")], "enable a.service", "m.target.wants/a.service"),
    case("drop-in of the template", &[T, ("v/t@.service.d/x.conf", "RequiredBy=n.target"), ("v/t@x.service.d/y.conf", "WantedBy=")], "enable t@x.service, enable t@y.service", "n.target.requires/t@x.service m.target.wants/t@y.service n.target.requires/t@y.service"),
    case("drop-in of the type", &[A, ("v/service.d/x.conf", "WantedBy=n.target")], "enable a.service", "m.target.wants/a.service"),
    // Specifiers.
    case("specifiers", &[("v/a-b@.service", "WantedBy=%p.%j.%i.target %N.target %%%%x.target %n.target")], "enable a-b@q-r.service", "!"),
    case("all specifiers", &[("v/a-b@.service", "WantedBy=%p_%j_%i_%N_%n_%u%U%g%G.target")], "enable a-b@q-r.service", "a-b_b_q-r_a-b@q-r_a-b@q-r.service_root0root0.target.wants/a-b@q-r.service"),
    case("specifiers of the default instance", &[("v/t@.service", "DefaultInstance=d\nWantedBy=%i_%N_%n.target")], "enable t@.service", "d_t@d_t@d.service.target.wants/t@d.service"),
    case("specifiers of a plain unit", &[("v/a.service", "WantedBy=x%i%j.target")], "enable a.service", "xa.target.wants/a.service"),
    case("unescaping specifier", &[("v/a.service", "WantedBy=%I.target")], "enable a.service", "!"),
    case("stray percent", &[("v/a.service", "WantedBy=m.target%")], "enable a.service", "!"),
    // Aliases.
    case("alias", &[("v/a.service", "Alias=b.service")], "enable a.service", "b.service"),
    case("alias of itself", &[("v/a.service", "Alias=a.service\nWantedBy=m.target")], "enable a.service", "m.target.wants/a.service"),
    case("alias of another type", &[("v/a.service", "Alias=b.socket")], "enable a.service", "!"),
    case("alias as instance", &[("v/t@.service", "Alias=u@x.service")], "enable t@.service", "u@x.service"),
    case("alias as plain name", &[("v/t@.service", "Alias=u.service")], "enable t@.service", "!"),
    case("alias takes the instance", &[("v/t@.service", "Alias=u@.service")], "enable t@x.service", "u@x.service"),
    case("alias with a directory", &[("v/a.service", "Alias=m.target.wants/a.service")], "enable a.service", "m.target.wants/a.service"),
    case("alias with another directory", &[("v/a.service", "Alias=m.target.d/a.service")], "enable a.service", "!"),
    case("alias with a directory, other unit", &[("v/a.service", "Alias=m.target.wants/b.service")], "enable a.service", "!"),
    case("alias is taken", &[("v/a.service", "Alias=c.service"), ("v/b.service", "Alias=c.service")], "enable a.service, enable b.service", "!"),
    case("alias is a file", &[("v/a.service", "Alias=b.service"), ("e/b.service", "[Unit]\n")], "enable a.service", "!"),
    case("alias through another directory", &[("v/a.service", "Alias=b.service"), ("e/b.service", "-> ../../../lib/systemd/system/a.service")], "enable a.service", "b.service"),
    case("enabling the alias", &[("v/a.service", "Alias=b.service")], "enable a.service, enable b.service", "!"),
    case("enabling a vendor's alias", &[A, ("v/b.service", "-> a.service")], "enable b.service", "m.target.wants/a.service"),
    case("disabling the alias", &[("v/a.service", "WantedBy=m.target\nAlias=b.service")], "enable a.service, disable b.service", ""),
    case("enabling a broken alias", &[("e/b.service", "-> /usr/lib/systemd/system/a.service")], "enable b.service", "!"),
    // Other units.
    case("also", &[("v/a.service", "Also=b.service"), B], "enable a.service", "m.target.wants/b.service"),
    case("also in a circle", &[("v/a.service", "WantedBy=m.target\nAlso=b.service"), ("v/b.service", "WantedBy=m.target\nAlso=a.service")], "enable a.service, disable b.service", ""),
    case("also is not reset", &[("v/a.service", "Also=b.service\nAlso="), B], "enable a.service", "m.target.wants/b.service"),
    case("also missing", &[("v/a.service", "WantedBy=m.target\nAlso=b.service")], "enable a.service", "m.target.wants/a.service"),
    case("also masked", &[("v/a.service", "WantedBy=m.target\nAlso=b.service"), B, ("e/b.service", "-> /dev/null")], "enable a.service", "m.target.wants/a.service b.service"),
    case("also with a backslash", &[("v/a.service", "Also=b\\x2dc.service"), ("v/bx2dc.service", "WantedBy=m.target")], "enable a.service", "m.target.wants/bx2dc.service"),
    case("also in quotes", &[("v/a.service", "Also=\"b.service\""), B], "enable a.service", "!"),
    case("also is disabled, too", &[("v/a.service", "WantedBy=m.target\nAlso=b.service"), B], "enable a.service, disable a.service", ""),
    // Templates.
    case("instance", &[T], "enable t@x.service", "m.target.wants/t@x.service"),
    case("instance with a file", &[T, ("v/t@x.service", "WantedBy=n.target")], "enable t@x.service", "n.target.wants/t@x.service"),
    case("template without default", &[T], "enable t@.service", "!"),
    case("template wanted by a template", &[("v/t@.service", "WantedBy=n@.target")], "enable t@.service", "n@.target.wants/t@.service"),
    case("default instance", &[("v/t@.service", "WantedBy=m.target\nDefaultInstance=d")], "enable t@.service", "m.target.wants/t@d.service"),
    case("masked default instance", &[("v/t@.service", "WantedBy=m.target\nDefaultInstance=d"), ("e/t@d.service", "-> /dev/null")], "enable t@.service", "!"),
    case("default instance of a plain unit", &[("v/a.service", "WantedBy=m.target\nDefaultInstance=d")], "enable a.service", "m.target.wants/a.service"),
    case("impossible default instance", &[("v/t@.service", "WantedBy=m.target\nDefaultInstance=a/b")], "enable t@.service", "!"),
    case("type without templates", &[("v/t@.mount", "WantedBy=m.target")], "enable t@x.mount", "!"),
    case("disabling a template", &[T], "enable t@x.service, enable t@y.service, disable t@.service", ""),
    case("disabling an instance", &[T], "enable t@x.service, enable t@y.service, disable t@x.service", "m.target.wants/t@y.service"),
    case("vendor's instance alias", &[T, ("v/u@.service", "-> t@.service")], "enable u@x.service", "m.target.wants/t@x.service"),
    // Masks and links.
    case("masked", &[A, ("e/a.service", "-> /dev/null")], "enable a.service", "!"),
    case("masked by an empty file", &[A, ("e/a.service", "")], "enable a.service", "!"),
    case("masked by the vendor", &[("v/a.service", "-> /dev/null")], "enable a.service", "!"),
    case("masked and disabled", &[A, ("e/a.service", "-> /dev/null"), ("e/m.target.wants/a.service", "-> /usr/lib/systemd/system/a.service")], "disable a.service", "a.service m.target.wants/a.service"),
    case("linked", &[("opt/a.service", "WantedBy=m.target"), ("e/a.service", "-> /opt/a.service")], "enable a.service", "a.service m.target.wants/a.service"),
    case("linked and disabled", &[("opt/a.service", "WantedBy=m.target"), ("e/a.service", "-> /opt/a.service")], "enable a.service, disable a.service", ""),
    case("linked under another name", &[("opt/x.service", "WantedBy=%p.target"), ("e/a.service", "-> /opt/x.service")], "enable a.service", "a.service a.target.wants/a.service"),
    case("linked to nothing", &[("e/a.service", "-> /opt/a.service")], "enable a.service", "!"),
    case("link to its own vendor file", &[A, ("e/a.service", "-> /usr/lib/systemd/system/a.service")], "enable a.service", "!"),
    case("link to another type", &[A, ("e/b.socket", "-> /usr/lib/systemd/system/a.service")], "enable b.socket", "!"),
    case("dependency leads elsewhere", &[A, ("e/m.target.wants/a.service", "-> /dev/null")], "enable a.service", "m.target.wants/a.service"),
    case("dependency has moved", &[A, ("e/m.target.wants/a.service", "-> /etc/systemd/system/a.service")], "enable a.service", "m.target.wants/a.service"),
    // Disabling.
    case("disabled", &[A, B], "enable a.service, enable b.service, disable a.service", "m.target.wants/b.service"),
    case("disabled by name and target", &[A, ("e/x.target.wants/a.service", "-> /nowhere"), ("e/y.target.upholds/z.service", "-> /usr/lib/systemd/system/a.service")], "disable a.service", ""),
    case("disabled without [Install]", &[("v/a.service", "[Unit]\n"), ("e/m.target.wants/a.service", "-> ../a.service")], "disable a.service", ""),
    case("disabled and missing", &[("e/m.target.wants/a.service", "-> /usr/lib/systemd/system/a.service")], "disable a.service", ""),
    case("disabled and broken", &[("v/a.service", "Also=b.service\n[Unit"), ("e/m.target.wants/a.service", "-> /usr/lib/systemd/system/a.service"), ("e/m.target.wants/b.service", "-> /usr/lib/systemd/system/b.service")], "disable a.service", ""),
    case("link that is no unit", &[A, ("e/m.target.wants/a.service.old", "-> /usr/lib/systemd/system/a.service")], "disable a.service", "m.target.wants/a.service.old"),
    // Presets.
    preset("no rule", &[A], "", "preset a.service", "m.target.wants/a.service"),
    preset("first rule", &[A, B], "enable a.service\n\n; x\ndisable *\n", "preset a.service, preset b.service", "m.target.wants/a.service"),
    preset("preset disables", &[A], "disable a.service", "enable a.service, preset a.service", ""),
    preset("preset disables without also", &[("v/a.service", "WantedBy=m.target\nAlso=b.service"), B], "disable a.service", "enable a.service, preset a.service", "m.target.wants/b.service"),
    preset("listed instances", &[T], "enable t@.service x  y\ndisable *", "preset t@.service, preset t@z.service", "m.target.wants/t@x.service m.target.wants/t@y.service"),
    preset("listed instance", &[T], "enable t@.service x y\ndisable *", "preset t@x.service", "m.target.wants/t@x.service"),
    preset("impossible instance", &[T], "enable t@.service x /\n", "preset t@.service", ""),
    preset("instances of a plain unit", &[A], "enable a.service x\ndisable *", "preset a.service", ""),
    preset("template without instances", &[T], "enable t@.service", "preset t@.service", ""),
    preset("sets and classes", &[A, B], "disable [!b-z]?se*\nenable [[:alpha:]].s[e]rvice", "preset a.service, preset b.service", "m.target.wants/b.service"),
    preset("negated set", &[A, B], "disable [^b].*", "preset a.service, preset b.service", "m.target.wants/b.service"),
    preset("bracket in a set", &[A, B], "disable []a].service", "preset a.service, preset b.service", "m.target.wants/b.service"),
    preset("open bracket", &[A], "disable [a.service", "preset a.service", "m.target.wants/a.service"),
    preset("two names", &[A], "disable a.service b.service", "preset a.service", "m.target.wants/a.service"),
    preset("preset of a mask", &[A, ("e/a.service", "-> /dev/null")], "", "preset a.service", "!"),
    preset("preset disables a mask", &[A, ("e/a.service", "-> /dev/null")], "disable *", "preset a.service", "a.service"),
    preset("preset of an alias", &[A, ("v/b.service", "-> a.service")], "", "preset b.service", ""),
    preset("preset of nothing", &[], "disable *", "preset a.service", "!"),
    preset("preset without [Install]", &[("v/a.service", "[Unit]\n")], "", "preset a.service", ""),
];
