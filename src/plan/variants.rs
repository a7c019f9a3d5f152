//! `[[variant]]`: what each variant changes, and whether the server can be changed so.

use super::diagnostic::Diagnostic;
use super::value::Item;
use super::wire::{Fields, Wire};
use super::{Place, Setting, Variant};

/// What the server lets a variant do.
struct Means {
    managed: bool,
    apply: bool,
    restart: bool,
}

/// The variants; without any, one that changes nothing.
pub(super) fn variants(wire: &Wire, place: &Place, problems: &mut Vec<Diagnostic>) -> Vec<Variant> {
    let means = match place {
        Place::Managed(_) => Means {
            managed: true,
            apply: true,
            restart: true,
        },
        Place::Server(server) => Means {
            managed: false,
            apply: server.hooks.apply.is_some(),
            restart: server.hooks.restart.is_some(),
        },
    };
    let mut names: Vec<(String, Option<std::ops::Range<usize>>)> = Vec::new();
    let mut variants = Vec::new();
    for item in &wire.variants {
        let fields = &item.value;
        let name = name(fields, item, problems);
        let at = fields.at("variant.name");
        if let Some(name) = &name {
            match names.iter().find(|(other, _)| other == name) {
                Some((_, first)) => problems.push(
                    Diagnostic::error(at.clone(), format!("two variants are called `{name}`"))
                        .also(first.clone(), "the first stands here")
                        .hint("give each variant a name of its own; results are filed under it"),
                ),
                None => names.push((name.clone(), at)),
            }
        }
        variants.push(variant(
            name.unwrap_or_default(),
            fields,
            item,
            &means,
            problems,
        ));
    }
    if variants.is_empty() {
        variants.push(Variant {
            name: "baseline".to_owned(),
            set: Vec::new(),
            options: Vec::new(),
            restart: false,
            operator: false,
            several: false,
        });
    }
    variants
}

fn name(fields: &Fields, item: &Item<Fields>, problems: &mut Vec<Diagnostic>) -> Option<String> {
    if !fields.given("variant.name") {
        problems.push(
            Diagnostic::error(item.at.clone(), "a variant has no name")
                .hint("add name = \"…\" below [[variant]]"),
        );
        return None;
    }
    let name = fields.text("variant.name")?;
    if name.trim().is_empty() || name.contains(['\n', '\t']) {
        problems.push(
            Diagnostic::error(
                fields.at("variant.name"),
                "`variant.name` is empty or breaks a line",
            )
            .hint("name what the variant changes, on one line"),
        );
        return None;
    }
    Some(name.trim().to_owned())
}

fn variant(
    name: String,
    fields: &Fields,
    item: &Item<Fields>,
    means: &Means,
    problems: &mut Vec<Diagnostic>,
) -> Variant {
    let set = fields.settings("variant.set");
    let options = fields.settings("variant.options");
    no_duplicates("variant.set", &set, &[], problems);
    no_duplicates("variant.options", &options, &set, problems);
    let operator = fields.flag("variant.operator");
    let restart = fields.flag("variant.restart");
    // Start-up options mean nothing to a server that keeps running; where capbench can restart
    // it, it does.
    let implied = !options.is_empty() && means.restart && !operator;
    let variant = Variant {
        name,
        set: set.iter().map(|s| s.value.clone()).collect(),
        options: options.iter().map(|s| s.value.clone()).collect(),
        restart: restart || implied,
        operator,
        several: fields.flag("variant.several"),
    };
    let broken = fields.broken("variant.set") || fields.broken("variant.options");
    let shown = &variant.name;
    let moved = variant.variables();
    if moved.len() > 1 && !variant.several {
        let second = set.iter().chain(&options).nth(1).map(|s| s.at.clone());
        problems.push(
            Diagnostic::error(
                second.or_else(|| Some(item.at.clone())),
                format!(
                    "variant `{shown}` changes {} variables at once ({})",
                    moved.len(),
                    moved.join(", ")
                ),
            )
            .hint("two changes at once explain nothing: make a variant of each, or write several = true if that is meant"),
        );
    }
    if variant.several && moved.len() < 2 && !broken {
        problems.push(
            Diagnostic::error(
                fields.key_at("variant.several"),
                format!(
                    "variant `{shown}` says several = true, but does not change several variables"
                ),
            )
            .hint("leave `several` out"),
        );
    }
    let nothing = set.is_empty() && options.is_empty() && !broken;
    if operator && nothing {
        problems.push(
            Diagnostic::error(
                fields.key_at("variant.operator"),
                format!("variant `{shown}` asks for an operator, but changes nothing"),
            )
            .hint("state what the operator is to change in `set` or `options`, so that it can be verified"),
        );
    }
    check_means(&variant, &options, restart, means, fields, problems);
    variant
}

/// Refuses what this server cannot be made to do.
fn check_means(
    variant: &Variant,
    options: &[Item<Setting>],
    restart: bool,
    means: &Means,
    fields: &Fields,
    problems: &mut Vec<Diagnostic>,
) {
    let shown = &variant.name;
    if means.managed {
        super::place::check_reserved("variant.options", options, problems);
        if variant.operator {
            problems.push(
                Diagnostic::error(
                    fields.key_at("variant.operator"),
                    format!(
                        "variant `{shown}` asks for an operator, but the server is a private one"
                    ),
                )
                .hint("capbench applies it itself; leave `operator` out"),
            );
        }
    } else if !options.is_empty() && !means.apply && !variant.operator {
        problems.push(
            Diagnostic::error(
                fields.key_at("variant.options"),
                format!("variant `{shown}` has start-up options, which capbench cannot give to a server that is not its own"),
            )
            .hint("add hooks = { apply = \"…\" } to [target], or operator = true to the variant: capbench then pauses until someone has changed it"),
        );
    }
    if restart && !means.restart && !variant.operator {
        problems.push(
            Diagnostic::error(
                fields.key_at("variant.restart"),
                format!("variant `{shown}` needs a restart, which capbench cannot do on a server that is not its own"),
            )
            .hint("add hooks = { restart = \"…\" } to [target], or operator = true to the variant"),
        );
    }
    if !restart
        && fields.given("variant.restart")
        && !fields.broken("variant.restart")
        && variant.restart
    {
        problems.push(
            Diagnostic::error(
                fields.key_at("variant.restart"),
                format!("variant `{shown}` has start-up options and restart = false: they would never take effect"),
            )
            .hint("leave `restart` out, or use `set` for variables that can be changed at run time"),
        );
    }
    let spaced = |text: &str| text.contains(char::is_whitespace);
    for option in options {
        if let super::SettingValue::Text(text) = &option.value.value
            && spaced(text)
            && !means.managed
            && means.apply
        {
            problems.push(
                Diagnostic::error(
                    option.at.clone(),
                    format!("the value of option `{}` holds a space", option.value.name),
                )
                .hint("hooks.apply receives the options separated by spaces; let the hook itself supply this value"),
            );
        }
    }
}

/// Refuses a name that stands twice in `items`, or in both `items` and `others`.
pub(super) fn no_duplicates(
    path: &str,
    items: &[Item<Setting>],
    others: &[Item<Setting>],
    problems: &mut Vec<Diagnostic>,
) {
    for (i, item) in items.iter().enumerate() {
        let earlier = items[..i].iter().chain(others);
        if let Some(first) = earlier
            .into_iter()
            .find(|e| e.value.name == item.value.name)
        {
            problems.push(
                Diagnostic::error(
                    item.at.clone(),
                    format!("`{path}` names `{}` a second time", item.value.name),
                )
                .also(first.at.clone(), "the first stands here")
                .hint("keep one of them (case and `-` or `_` make no difference)"),
            );
        }
    }
}
