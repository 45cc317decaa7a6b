"""The proof of a fabric by traffic: which tests to run, and what their values say. Nothing here sends a packet.

topology  Plan -> nodes, ports, leaves and uplinks as numbers
pairing   the circle method and latin squares: arithmetic on indices
rounds    topology -> rounds of disjoint tests
coverage  the probability that a link between leaf and spine carried a test
budget    rounds, tests and seconds, before anything runs
findings  the value of a test -> pass, warn, fail, unknown, not-tested
samples   values of rounds, counted by port and leaf
blame     values -> culprits; asks for repeats while they are uncertain
"""
