//! Checks that the model settles: without events, the controllers stop writing, and stop only when there is
//! nothing left to do.
//!
//! A state checker cannot verify that. Here the whole graph is kept, and searched for cycles.

use std::collections::{HashMap, VecDeque};

use stateright::Model;

use super::{Action, Call, Protocol, State, doing::Doing, tell};

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// States.
    pub states: usize,
    /// States in which no controller finds anything to do.
    pub quiet: usize,
    /// The steps of a cycle with at least one write.
    pub writes_for_ever: Vec<String>,
    /// The same, with a single controller.
    pub writes_alone: Vec<String>,
    /// A state without a next step, or with cycles only, although there is something to do.
    pub stuck: Option<String>,
    /// There were more states than the limit.
    pub cut: bool,
}

struct Graph {
    states: Vec<State>,
    /// The successors by controller steps, and whether each step writes.
    next: Vec<Vec<(usize, bool)>>,
}

impl Protocol {
    /// Visits every reachable state, and the controller steps from there.
    #[must_use]
    pub(super) fn settles(&self) -> Settled {
        let Some(graph) = self.graph() else {
            return Settled {
                cut: true,
                ..Settled::default()
            };
        };
        let mut settled = Settled {
            states: graph.states.len(),
            quiet: graph.states.iter().filter(|it| self.is_quiet(it)).count(),
            ..Settled::default()
        };
        let is_alone = |node: usize| {
            let controllers = &graph.states[node].controllers;
            controllers
                .iter()
                .any(|it| it.doing == Doing::Idle && it.behind.is_none())
        };
        let alone: Vec<Vec<_>> = (0..)
            .zip(&graph.next)
            .map(|(from, steps)| {
                let both = |(to, _): &&(usize, bool)| is_alone(from) && is_alone(*to);
                steps.iter().filter(both).copied().collect()
            })
            .collect();
        if let Some((from, to)) = writing(&alone) {
            settled.writes_alone = self.circle(&graph.states[from], &graph.states[to]);
        }
        if let Some((from, to)) = writing(&graph.next) {
            settled.writes_for_ever = self.circle(&graph.states[from], &graph.states[to]);
        }
        let groups = groups(&graph.next);
        let mut leaves = vec![false; graph.states.len()];
        for (from, steps) in graph.next.iter().enumerate() {
            leaves[groups[from]] |= steps.iter().any(|(to, _)| groups[from] != groups[*to]);
        }
        for (state, group) in graph.states.iter().zip(&groups) {
            if !leaves[*group] && !self.is_quiet(state) && state.broken.is_none() {
                settled.stuck = Some(format!("{state:#?}"));
            }
        }
        settled
    }

    /// The steps from one state to another, and back.
    fn circle(&self, from: &State, to: &State) -> Vec<String> {
        let own = |state: &State| {
            let mut actions = Vec::new();
            self.actions(state, &mut actions);
            let own = actions.into_iter().filter(|it| is_own(*it));
            own.filter_map(|it| Some((it, self.next_state(state, it)?)))
                .collect::<Vec<_>>()
        };
        let mut came: HashMap<State, Option<(State, Action)>> = HashMap::new();
        came.insert(to.clone(), None);
        let mut front = VecDeque::from([to.clone()]);
        while let Some(state) = front.pop_front() {
            for (action, next) in own(&state) {
                came.entry(next).or_insert_with_key(|next| {
                    front.push_back(next.clone());
                    Some((state.clone(), action))
                });
            }
        }
        let mut lines = Vec::new();
        let mut at = from.clone();
        while let Some(Some((before, action))) = came.get(&at).cloned() {
            lines.push(tell::line(self, &before, &action));
            at = before;
        }
        let first = own(from).into_iter().find(|(_, next)| next == to);
        lines.extend(first.map(|(action, _)| tell::line(self, from, &action)));
        lines.reverse();
        lines
    }

    fn graph(&self) -> Option<Graph> {
        let mut numbers = HashMap::new();
        let mut graph = Graph {
            states: Vec::new(),
            next: Vec::new(),
        };
        let mut number = |state: State, graph: &mut Graph| {
            *numbers.entry(state.clone()).or_insert_with(|| {
                graph.states.push(state);
                graph.next.push(Vec::new());
                graph.states.len() - 1
            })
        };
        for state in self.init_states() {
            number(state, &mut graph);
        }
        let (mut at, mut actions) = (0, Vec::new());
        while at < graph.states.len() {
            if at > self.settings.most {
                return None;
            }
            let state = graph.states[at].clone();
            self.actions(&state, &mut actions);
            for action in actions.drain(..) {
                let Some(next) = self.next_state(&state, action) else {
                    continue;
                };
                let writes = next.world != state.world;
                let to = number(next, &mut graph);
                if is_own(action) {
                    graph.next[at].push((to, writes));
                }
            }
            at += 1;
        }
        Some(graph)
    }
}

/// True when a step is one of a controller, and not a fault.
const fn is_own(action: Action) -> bool {
    match action {
        Action::Look(..)
        | Action::Enforce(..)
        | Action::CatchesUp(_)
        | Action::Goes(_, Call::Done) => true,
        Action::Goes(_, Call::Refused | Call::Unheard)
        | Action::Happens(_)
        | Action::Silence(_)
        | Action::Crash(_)
        | Action::Ages(_)
        | Action::HandsOver(..)
        | Action::Drops(_)
        | Action::FallsBehind(_) => false,
    }
}

/// A step that writes and is part of a cycle.
fn writing(next: &[Vec<(usize, bool)>]) -> Option<(usize, usize)> {
    let groups = groups(next);
    (0..).zip(next).find_map(|(from, steps)| {
        let round = |(to, writes): &&(usize, bool)| *writes && groups[from] == groups[*to];
        steps.iter().find(round).map(|(to, _)| (from, *to))
    })
}

/// The strongly connected component of each node, as a number (Tarjan's algorithm, without recursion).
fn groups(next: &[Vec<(usize, bool)>]) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let (mut index, mut low) = (vec![UNSEEN; next.len()], vec![0; next.len()]);
    let (mut group, mut open) = (vec![UNSEEN; next.len()], Vec::new());
    let (mut count, mut found) = (0, 0);
    for root in 0..next.len() {
        let mut path = if index[root] == UNSEEN {
            vec![(root, 0)]
        } else {
            vec![]
        };
        while let Some((node, edge)) = path.pop() {
            if edge == 0 {
                (index[node], low[node]) = (count, count);
                count += 1;
                open.push(node);
            }
            if let Some((to, _)) = next[node].get(edge) {
                path.push((node, edge + 1));
                if index[*to] == UNSEEN {
                    path.push((*to, 0));
                } else if group[*to] == UNSEEN {
                    low[node] = low[node].min(index[*to]);
                }
                continue;
            }
            if low[node] == index[node] {
                while let Some(member) = open.pop() {
                    group[member] = found;
                    if member == node {
                        break;
                    }
                }
                found += 1;
            }
            if let Some((parent, _)) = path.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
        }
    }
    group
}
