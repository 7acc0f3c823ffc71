//! Programs of modules: a module that has one needs no worker. One that has none needs any worker, not a new one.
//!
//! Owns: which programs are kept, and which modules are known to have none. Refuses to know: the meaning of a program.
//!
//! Invariant: a program is found for exactly the module, and only for policies of the namespace, for which a worker made
//! it. A namespace evicts no program of another one, unless there are more namespaces than are kept.

use std::sync::Arc;
use std::time::Duration;

use connectors_api::rego::NativeProgram;
use service_kit::cache::{Bounds, Cache};

/// Namespaces whose programs are kept.
const NAMESPACES: usize = 512;
/// Programs of one namespace that are kept.
const MOST: usize = 16;
/// Bytes of all modules and programs of one namespace that are kept.
const MOST_BYTES: usize = 64 * 1024;
/// The most bytes of a module and its program. A longer one would evict too many others.
const LONGEST: usize = MOST_BYTES / 4;
/// Then a worker makes the program again.
const AGE: Duration = Duration::from_mins(10);
/// The approximate memory of an entry beside its texts.
const OVERHEAD: usize = 256;

/// The program of a module; none if it has none.
pub type KnownProgram = Option<Arc<NativeProgram>>;

/// Programs, as workers made them.
#[derive(Debug)]
pub struct NativePrograms(Cache<String, Arc<NamespacePrograms>>);

/// The programs of one namespace, by module.
type NamespacePrograms = Cache<String, KnownProgram>;

impl Default for NativePrograms {
    fn default() -> Self {
        Self(Cache::new(Bounds {
            entries: NAMESPACES,
            bytes: usize::MAX,
            age: None,
        }))
    }
}

impl NativePrograms {
    /// The program of a module of a policy in this namespace. None if nothing is known of it. A module that is too long to
    /// be kept counts as one without a program.
    #[must_use]
    pub fn find(&self, namespace: &str, module: &str) -> Option<KnownProgram> {
        if module.len() + OVERHEAD > LONGEST {
            return Some(None);
        }
        self.0.get(namespace)?.get(module)
    }

    /// Keeps a program, or that the module has none.
    pub fn keep(&self, namespace: &str, module: &str, program: Option<NativeProgram>) {
        let bytes = module.len() + OVERHEAD;
        if bytes > LONGEST {
            return;
        }
        let weighed = program.map(|it| (bytes + it.weight(), it));
        let (bytes, program) = match weighed {
            Some((bytes, program)) if bytes <= LONGEST => (bytes, Some(program)),
            Some(_) | None => (bytes, None),
        };
        let own = self.0.get(namespace).unwrap_or_else(|| {
            let own = Arc::new(Cache::new(Bounds {
                entries: MOST,
                bytes: MOST_BYTES,
                age: Some(AGE),
            }));
            self.0.put(namespace.to_owned(), Arc::clone(&own), 0);
            own
        });
        own.put(module.to_owned(), program.map(Arc::new), bytes);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::advance;

    use super::*;

    /// The program of a module with a constant state.
    fn program(state: &str) -> NativeProgram {
        let output = json!({"state": {"text": state}, "message": null});
        let rules = json!({"rules": [[{"steps": [], "output": output}]], "default": null});
        serde_json::from_value(rules).unwrap()
    }

    fn keep(programs: &NativePrograms, namespace: &str, module: &str) {
        programs.keep(
            namespace,
            module,
            Some(program(module.get(..8).unwrap_or(module))),
        );
    }

    fn knows(programs: &NativePrograms, namespace: &str, module: &str) -> bool {
        programs.find(namespace, module).flatten().is_some()
    }

    #[tokio::test]
    async fn a_program_is_of_its_module_and_of_its_namespace() {
        let programs = NativePrograms::default();
        keep(&programs, "tools", "a");
        let found = programs.find("tools", "a").flatten();
        assert_eq!(found.as_deref(), Some(&program("a")));
        for (namespace, module) in [
            ("tools", "a "),
            ("tools", "A"),
            ("tools", ""),
            ("other", "a"),
        ] {
            assert!(!knows(&programs, namespace, module), "{namespace} {module}");
        }
        keep(&programs, "other", "b");
        assert!(knows(&programs, "tools", "a") && !knows(&programs, "tools", "b"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_module_without_a_program_is_known_as_such_for_as_long() {
        let programs = NativePrograms::default();
        assert_eq!(programs.find("tools", "a"), None);
        programs.keep("tools", "a", None);
        assert_eq!(programs.find("tools", "a"), Some(None));
        assert_eq!(programs.find("other", "a"), None);
        advance(AGE).await;
        assert_eq!(programs.find("tools", "a"), None);
    }

    #[tokio::test]
    async fn a_flood_of_one_namespace_evicts_only_its_own_programs() {
        let programs = NativePrograms::default();
        keep(&programs, "calm", "a");
        for number in 0..10_000 {
            keep(&programs, "flood", &number.to_string());
            let (entries, bytes) = programs.0.get("flood").unwrap().size();
            assert!(entries <= MOST && bytes <= MOST_BYTES, "{entries} {bytes}");
        }
        assert!(knows(&programs, "calm", "a"));
        assert!(!knows(&programs, "flood", "0"));
        let long = |number: usize| format!("{number}{}", "x".repeat(LONGEST / 2));
        for number in 0..100 {
            keep(&programs, "flood", &long(number));
            assert!(programs.0.get("flood").unwrap().size().1 <= MOST_BYTES);
        }
        assert!(knows(&programs, "flood", &long(99)));
    }

    #[tokio::test]
    async fn no_more_namespaces_are_kept_than_allowed() {
        let programs = NativePrograms::default();
        for number in 0..2 * NAMESPACES {
            keep(&programs, &number.to_string(), "a");
            keep(&programs, "again and again", "a");
            assert!(programs.0.size().0 <= NAMESPACES);
        }
        assert!(knows(&programs, "again and again", "a"));
    }

    #[tokio::test]
    async fn a_long_module_is_left_to_workers() {
        let programs = NativePrograms::default();
        let around = program("xxxxxxxx").weight() + OVERHEAD;
        for (length, is_kept) in [(LONGEST - around, true), (LONGEST - around + 1, false)] {
            let module = "x".repeat(length);
            keep(&programs, "tools", &module);
            assert_eq!(knows(&programs, "tools", &module), is_kept, "{length}");
            // No new worker is started for a program that is not kept.
            assert!(programs.find("tools", &module).is_some(), "{length}");
        }
        let (long, longer) = ("x".repeat(LONGEST - OVERHEAD), "x".repeat(LONGEST));
        assert_eq!(programs.find("tools", &long), None);
        assert_eq!(programs.find("tools", &longer), Some(None));
        keep(&programs, "tools", &longer);
        assert!(programs.0.get("tools").unwrap().size().1 <= MOST_BYTES);
        assert_eq!(programs.find("tools", &longer), Some(None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_is_made_again_in_time_however_often_it_is_used() {
        let programs = NativePrograms::default();
        keep(&programs, "tools", "a");
        advance(AGE / 2).await;
        assert!(knows(&programs, "tools", "a"));
        advance(AGE / 2).await;
        assert!(!knows(&programs, "tools", "a"));
    }
}
