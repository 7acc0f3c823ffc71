//! The functions that the compiler itself calls: nothing can be asked in them at run time.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

/// The names of functions that constants need, directly or through other constant functions.
pub(super) struct ConstantNames(BTreeSet<String>);

impl ConstantNames {
    /// Those of all sources together: a constant may call a function of any file.
    pub(super) fn of<'a>(sources: impl IntoIterator<Item = &'a str>) -> syn::Result<Self> {
        let mut seen = Seen::default();
        for source in sources {
            seen.visit_file(&syn::parse_file(source)?);
        }
        let Seen {
            mut needed,
            by_function,
            ..
        } = seen;
        let mut next: Vec<String> = needed.iter().cloned().collect();
        while let Some(name) = next.pop() {
            for called in by_function.get(&name).into_iter().flatten() {
                if needed.insert(called.clone()) {
                    next.push(called.clone());
                }
            }
        }
        Ok(Self(needed))
    }

    /// Whether a function has to stay constant. Functions of the same name are not told apart.
    pub(super) fn need(&self, function: &syn::Ident) -> bool {
        self.0.contains(&function.to_string())
    }
}

#[derive(Default)]
struct Seen {
    /// The names in constants, statics and lengths of arrays.
    needed: BTreeSet<String>,
    /// The names in each constant function.
    by_function: BTreeMap<String, BTreeSet<String>>,
    /// What is being looked at: a constant, or a constant function.
    within: Vec<Option<String>>,
}

impl Seen {
    fn constant(&mut self, go_on: impl FnOnce(&mut Self)) {
        self.within.push(None);
        go_on(self);
        self.within.pop();
    }

    fn function(&mut self, signature: &syn::Signature, go_on: impl FnOnce(&mut Self)) {
        let outside = std::mem::take(&mut self.within);
        if signature.constness.is_some() {
            self.within.push(Some(signature.ident.to_string()));
        }
        go_on(self);
        self.within = outside;
    }

    fn called(&mut self, name: &syn::Ident) {
        match self.within.last() {
            None => {}
            Some(None) => {
                self.needed.insert(name.to_string());
            }
            Some(Some(function)) => {
                let names = self.by_function.entry(function.clone()).or_default();
                names.insert(name.to_string());
            }
        }
    }
}

impl<'ast> Visit<'ast> for Seen {
    fn visit_item_const(&mut self, it: &'ast syn::ItemConst) {
        self.constant(|seen| syn::visit::visit_item_const(seen, it));
    }

    fn visit_impl_item_const(&mut self, it: &'ast syn::ImplItemConst) {
        self.constant(|seen| syn::visit::visit_impl_item_const(seen, it));
    }

    fn visit_item_static(&mut self, it: &'ast syn::ItemStatic) {
        self.constant(|seen| syn::visit::visit_item_static(seen, it));
    }

    fn visit_type_array(&mut self, it: &'ast syn::TypeArray) {
        self.constant(|seen| syn::visit::visit_type_array(seen, it));
    }

    fn visit_expr_const(&mut self, it: &'ast syn::ExprConst) {
        self.constant(|seen| syn::visit::visit_expr_const(seen, it));
    }

    fn visit_item_fn(&mut self, it: &'ast syn::ItemFn) {
        self.function(&it.sig, |seen| syn::visit::visit_item_fn(seen, it));
    }

    fn visit_impl_item_fn(&mut self, it: &'ast syn::ImplItemFn) {
        self.function(&it.sig, |seen| syn::visit::visit_impl_item_fn(seen, it));
    }

    // Paths: a constant may hold a function, and call it in a macro or through a name.
    fn visit_path_segment(&mut self, it: &'ast syn::PathSegment) {
        self.called(&it.ident);
        syn::visit::visit_path_segment(self, it);
    }

    fn visit_expr_method_call(&mut self, it: &'ast syn::ExprMethodCall) {
        self.called(&it.method);
        syn::visit::visit_expr_method_call(self, it);
    }

    // A macro's tokens are not parsed, so every word of it counts.
    fn visit_macro(&mut self, it: &'ast syn::Macro) {
        self.words(it.tokens.clone());
        syn::visit::visit_macro(self, it);
    }
}

impl Seen {
    fn words(&mut self, tokens: proc_macro2::TokenStream) {
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Ident(word) => self.called(&word),
                proc_macro2::TokenTree::Group(group) => self.words(group.stream()),
                proc_macro2::TokenTree::Punct(_) | proc_macro2::TokenTree::Literal(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;

    use super::*;

    #[test]
    fn functions_stay_constant_that_constants_need_through_others_too() {
        let sources = [
            "const A: u8 = one(); impl S { const fn two() -> u8 { three() } const fn six() {} }",
            "static B: [u8; S::two()] = x!(four); const fn three() {} const fn five() { one() }",
            "fn f() { five() }",
        ];
        let names = ConstantNames::of(sources).unwrap();
        let is_needed = |name| names.need(&syn::Ident::new(name, Span::call_site()));
        for name in ["one", "two", "three", "four"] {
            assert!(is_needed(name), "{name}");
        }
        for name in ["five", "six", "f"] {
            assert!(!is_needed(name), "{name}");
        }
    }
}
