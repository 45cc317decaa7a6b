"""The proof of a fabric by traffic: which tests to run, and what their values say. Nothing here sends a packet.

topology  Plan -> nodes, ports, leaves and uplinks as numbers
pairing   the circle method and latin squares: arithmetic on indices
rounds    topology -> rounds of disjoint tests
coverage  the probability that a link between leaf and spine carried a test
budget    rounds, tests and seconds, before anything runs
findings  the value of a test -> pass, warn, fail, unknown, not-tested
samples   values of rounds, counted by port and leaf
blame     values -> culprits; asks for repeats while they are uncertain
rungs     what the ends of a path run on each rung of the ladder, and what their outputs say
paths     ports of a plan -> ends of paths
sheets    paths of a rung -> the steps of each node in each round
facts     files of a port -> rate, PCIe, GIDs, counters
results   readings -> the result of each planned test
proof     all of it, as a generator of sheets
report    a proof as people and programs read it
"""
