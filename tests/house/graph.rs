//! Who leads to whom: what can be reached, and circles.

use std::collections::BTreeSet;

/// Each node's number, with the numbers of the nodes that it leads to.
pub struct Graph {
    pub edges: Vec<BTreeSet<usize>>,
}

impl Graph {
    /// What can be reached from `start`; itself only if a way leads back to it.
    pub fn playlist_position(&self, start: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            let next = self.edges[node].iter();
            open.extend(next.filter(|&&next| reached.insert(next)));
        }
        reached
    }

    /// The most nodes of which each can reach each; none, if there is no circle.
    pub fn largest_circle(&self) -> BTreeSet<usize> {
        let reaches: Vec<_> = (0..self.edges.len())
            .map(|node| self.playlist_position(node))
            .collect();
        let circle = |node: usize| -> BTreeSet<usize> {
            let back = |other: &&usize| reaches[**other].contains(&node);
            reaches[node].iter().filter(back).copied().collect()
        };
        let circles = (0..self.edges.len()).map(circle);
        circles.max_by_key(BTreeSet::len).unwrap_or_default()
    }
}

#[test]
fn circles_are_found() {
    let edges = [vec![1], vec![2], vec![0, 3], vec![4], vec![3], vec![]];
    let edges = edges.map(|edges| edges.into_iter().collect()).to_vec();
    let graph = Graph { edges };
    assert_eq!(graph.largest_circle(), BTreeSet::from([0, 1, 2]));
    assert_eq!(graph.playlist_position(3), BTreeSet::from([3, 4]));
    assert_eq!(graph.playlist_position(5), BTreeSet::new());
    let graph = Graph {
        edges: vec![BTreeSet::from([1]), BTreeSet::new()],
    };
    assert!(graph.largest_circle().is_empty());
}
