//! The children of a pipeline task with a matrix.
//!
//! Written apart from the proof, so that an error in one of both does not hide in the other.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::objects::{elements, text};

/// The values of one child by parameter. Tekton orders them by name.
type Combined<'a> = BTreeMap<&'a str, &'a Value>;

/// A parameter of a matrix, with its values.
type Listed<'a> = (&'a str, &'a [Value]);

pub(super) fn is_matrix(task: &Value) -> bool {
    let lists = ["params", "include"].into_iter();
    lists
        .map(|it| elements(&task["matrix"][it]))
        .any(|it| !it.is_empty())
}

/// The parameters that a matrix gives to each child; one empty list without a matrix. None while a list is not known.
///
/// Tekton counts the children by another rule than the one that combines. A child too many gets no parameters of the
/// matrix, and a combination too many gets no child.
pub(super) fn combinations(task: &Value) -> Option<Vec<Vec<Value>>> {
    if !is_matrix(task) {
        return Some(vec![Vec::new()]);
    }
    let listed = elements(&task["matrix"]["params"]).iter();
    let listed = listed.map(|it| Some((text(it, "/name"), it["value"].as_array()?.as_slice())));
    let listed: Vec<Listed<'_>> = listed.collect::<Option<_>>()?;
    let include = elements(&task["matrix"]["include"]);
    let children = combined(&listed, include).into_iter();
    let mut children: Vec<_> = children.map(|it| params(&it)).collect();
    children.resize(count(&listed, include), Vec::new());
    Some(children)
}

fn params(combined: &Combined<'_>) -> Vec<Value> {
    let all = combined.iter();
    all.map(|(name, value)| json!({"name": name, "value": value}))
        .collect()
}

/// Each parameter multiplies. An entry of `include` goes into each combination that has no other value for one of its
/// parameters. It becomes one of its own where no combination has any of its values.
fn combined<'a>(listed: &[Listed<'a>], include: &'a [Value]) -> Vec<Combined<'a>> {
    let included = include.iter().map(|entry| {
        let params = elements(&entry["params"]).iter();
        params.map(|it| (text(it, "/name"), &it["value"])).collect()
    });
    let included: Vec<Combined<'_>> = included.collect();
    if listed.is_empty() {
        return included;
    }
    let mut all = vec![Combined::new()];
    for (name, values) in listed {
        let with_value = values.iter().flat_map(|value| {
            let with = move |mut it: Combined<'a>| {
                it.insert(*name, value);
                it
            };
            all.clone().into_iter().map(with)
        });
        all = with_value.collect();
    }
    for combined in &mut all {
        for entry in &included {
            let is_other = |(name, value): (&&str, &&Value)| {
                combined.get(*name).is_some_and(|it| *it != *value)
            };
            if !entry.iter().any(is_other) {
                combined.extend(entry);
            }
        }
    }
    for entry in included {
        let has_one = |it: &Combined<'_>| {
            entry
                .iter()
                .any(|(name, value)| it.get(name) == Some(value))
        };
        if !entry.is_empty() && !all.iter().any(has_one) {
            all.push(entry);
        }
    }
    all
}

/// The number of children. An entry of `include` counts once for each parameter of the matrix to which it gives a new
/// value, up to the first one whose value is known.
fn count(listed: &[Listed<'_>], include: &[Value]) -> usize {
    if listed.is_empty() {
        return include.len();
    }
    let new = |entry: &Value| {
        let params = elements(&entry["params"]).iter();
        let of_matrix = params.filter_map(|it| {
            let mut listed = listed.iter();
            let (_, values) = listed.find(|(name, _)| it["name"] == *name)?;
            Some(values.contains(&it["value"]))
        });
        of_matrix.take_while(|is_known| !is_known).count()
    };
    let multiplied: usize = listed.iter().map(|(_, values)| values.len()).product();
    multiplied + include.iter().map(new).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(name: &str, value: &str) -> Value {
        json!({"name": name, "value": value})
    }

    fn list(name: &str, values: &[&str]) -> Value {
        json!({"name": name, "value": values})
    }

    /// The values of each child, in the order of their parameters' names.
    fn children(params: &[Value], include: &[&[Value]]) -> Vec<String> {
        let include: Vec<_> = include.iter().map(|it| json!({"params": it})).collect();
        let task = json!({"matrix": {"params": params, "include": include}});
        let of_child = |it: Vec<Value>| {
            let values = it.iter();
            let values = values.map(|it| format!("{}={}", text(it, "/name"), text(it, "/value")));
            values.collect::<Vec<_>>().join(" ")
        };
        let children = combinations(&task).unwrap().into_iter();
        children.map(of_child).collect()
    }

    #[test]
    fn a_matrix_multiplies_and_waits_for_lists_of_results() {
        assert_eq!(combinations(&json!({})), Some(vec![vec![]]));
        let none = json!({"matrix": {"params": [], "include": []}});
        assert_eq!(combinations(&none), Some(vec![vec![]]));
        let two = children(&[list("a", &["1", "2"]), list("b", &["x", "y"])], &[]);
        assert_eq!(two, ["a=1 b=x", "a=2 b=x", "a=1 b=y", "a=2 b=y"]);
        assert_eq!(children(&[list("a", &[])], &[]), Vec::<String>::new());
        let waits = json!({"matrix": {"params": [param("a", "$(tasks.t.results.r[*])")]}});
        assert_eq!(combinations(&waits), None);
    }

    #[test]
    fn entries_of_include_alone_are_the_children() {
        let of = children(
            &[],
            &[&[param("a", "1")], &[param("b", "2"), param("a", "3")], &[]],
        );
        assert_eq!(of, ["a=1", "a=3 b=2", ""]);
    }

    #[test]
    fn an_entry_of_include_goes_into_the_combinations_that_it_does_not_contradict() {
        let envs = [list("env", &["a", "b"])];
        let of = |entry: &[Value]| children(&envs, &[entry]);
        assert_eq!(
            of(&[param("env", "a"), param("flag", "y")]),
            ["env=a flag=y", "env=b"]
        );
        assert_eq!(of(&[param("flag", "y")]), ["env=a flag=y", "env=b flag=y"]);
        assert_eq!(
            of(&[param("env", "c"), param("flag", "y")]),
            ["env=a", "env=b", "env=c flag=y"]
        );
        assert_eq!(of(&[]), ["env=a", "env=b"]);
    }

    #[test]
    fn children_are_counted_by_another_rule_than_they_are_combined() {
        let lists = [list("env", &["a"]), list("zone", &["1"])];
        let of = |entry: &[Value]| children(&lists, &[entry]);
        // The entry is no combination of its own, and counts up to the value that is known.
        assert_eq!(
            of(&[param("env", "c"), param("zone", "1")]),
            ["env=a zone=1", ""]
        );
        assert_eq!(
            of(&[param("zone", "1"), param("env", "c")]),
            ["env=a zone=1"]
        );
        // It is one, and counts twice.
        let two = of(&[param("env", "c"), param("zone", "2")]);
        assert_eq!(two, ["env=a zone=1", "env=c zone=2", ""]);
    }
}
