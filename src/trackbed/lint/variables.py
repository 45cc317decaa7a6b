"""Variables of NCCL, UCX and MPI wherever a manifest sets them: env, scripts, mpirun's -x, ConfigMaps, nccl.conf."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trackbed.fabric.model.problems import Path, Place
from trackbed.lint.assignments import find_assignments
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach, Edit
from trackbed.lint.pods import PodTemplate, find_pod_templates
from trackbed.lint.tree import Tree, dig, enumerate_mappings, enumerate_texts

_CONFIGURATION = re.compile(r"nccl.*\.conf")
"""Name of a file that NCCL reads (/etc/nccl.conf, NCCL_CONF_FILE)."""


class EnvironmentVariable(NamedTuple):
    """A variable with its value and where it is set."""

    name: str
    value: str
    tree: Tree
    path: Path
    """Path of the value, or of the text that holds it."""
    pod: PodTemplate | None
    """The pod that gets the variable; None if unknown."""
    place: Place | None = None
    """Place of the name inside a text."""
    name_path: Path | None = None

    def build_breach(self, rule_id: str, message: str, edit: Edit | None = None) -> Breach:
        """Return the breach of a rule at the value of the variable."""
        return Breach(rule_id, self.tree, self.path, message, edit=edit, place=self.place)

    def build_name_breach(self, rule_id: str, message: str) -> Breach:
        """Return the breach of a rule at the name of the variable."""
        return Breach(rule_id, self.tree, self.name_path or self.path, message, place=self.place)

    def is_on_host_network(self) -> bool:
        """Return whether the variable is for pods with hostNetwork; options of a launcher are for its workers."""
        return any(pod.get("spec", "hostNetwork") is True for pod in self.list_pods())

    def list_pods(self) -> Sequence[PodTemplate]:
        """Return the pods that get the variable; for an option of a launcher, all pods of its object."""
        if self.pod is None:
            return ()
        return find_pod_templates(self.pod.doc) if self.place else [self.pod]


def iter_variables(corpus: Corpus) -> Iterator[EnvironmentVariable]:
    """Yield the variables that pods get from their own fields and from ConfigMaps of the input."""
    for pod in corpus.pods:
        for path, container in pod.list_containers(init=True):
            for number, env in enumerate_mappings(container.get("env")):
                name, value = env.get("name"), env.get("value")
                if isinstance(name, str) and isinstance(value, str | int | float):
                    place = (*path, "env", number)
                    tree = pod.doc.tree
                    yield EnvironmentVariable(
                        name, str(value).strip(), tree, (*place, "value"), pod, name_path=(*place, "name")
                    )
            for field in ("command", "args"):
                for number, text in enumerate_texts(container.get(field)):
                    yield from _iter_text_variables(pod.doc, (*path, field, number), text, pod)
    users = _index_users(corpus)
    for doc in corpus.select_kinds("ConfigMap"):
        yield from _iter_config_map_variables(doc, *(_find_first(doc, names) for names in users))


def _iter_config_map_variables(
    doc: Document, taker: PodTemplate | None, mounter: PodTemplate | None
) -> Iterator[EnvironmentVariable]:
    """Yield the variables of a ConfigMap; a pod may take its keys as variables, and a pod may mount it."""
    for key, text in doc.get_mapping("data").items():
        path: Path = ("data", key)
        if not isinstance(text, str):
            continue
        if taker and key.isidentifier() and "\n" not in text.strip():
            yield EnvironmentVariable(key, text.strip(), doc.tree, path, taker, name_path=path)
        elif mounter or _CONFIGURATION.fullmatch(key):
            yield from _iter_text_variables(doc, path, text, mounter)


_Users = dict[str, dict[str, tuple[int, PodTemplate]]]
"""Name of a ConfigMap -> namespace, or none -> the first pod that uses it, and its place among the pods."""


def _index_users(corpus: Corpus) -> tuple[_Users, _Users]:
    """Return the first pods that take the keys of ConfigMaps as variables, and those that mount them."""
    takers: _Users = {}
    mounters: _Users = {}
    for number, pod in enumerate(corpus.pods):
        sources = [
            dig(source, "configMapRef", "name")
            for _, container in pod.list_containers(init=True)
            for _, source in enumerate_mappings(container.get("envFrom"))
        ]
        volumes = [dig(volume, "configMap", "name") for _, volume in enumerate_mappings(pod.get("spec", "volumes"))]
        for users, names in ((takers, sources), (mounters, volumes)):
            for name in names:
                if isinstance(name, str):
                    users.setdefault(name, {}).setdefault(pod.doc.namespace or "", (number, pod))
    return takers, mounters


def _find_first(doc: Document, users: _Users) -> PodTemplate | None:
    """Return the first pod that uses a ConfigMap; objects without a namespace may be of any."""
    by_namespace = users.get(doc.name, {})
    chosen = [by_namespace.get(name) for name in ("", doc.namespace)] if doc.namespace else by_namespace.values()
    return min(filter(None, chosen), key=lambda user: user[0], default=(0, None))[1]


def _iter_text_variables(
    doc: Document, path: Path, text: str, pod: PodTemplate | None
) -> Iterator[EnvironmentVariable]:
    """Yield the variables that a script, a command line or a configuration file sets."""
    for match in find_assignments(text):
        place = _locate(doc.tree, path, text, match.start("name"))
        yield EnvironmentVariable(match["name"], match["value"], doc.tree, path, pod, place)


def _locate(tree: Tree, path: Path, text: str, offset: int) -> Place:
    """Return the place of an offset in a text, or that of the text if its lines are not lines of the file."""
    position = tree.locate_text(path, text)
    if not position.exact:
        return position.place
    line = text.count("\n", 0, offset)
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return Place(position.place.file, position.line + line + 1, position.column + column)
