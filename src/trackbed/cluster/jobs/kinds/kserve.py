"""KServe: InferenceService (serving.kserve.io/v1beta1) and LLMInferenceService (v1alpha1, v1alpha2).

Both have pod specs without metadata; the annotations of the pods are beside them: in the predictor
(ComponentExtensionSpec of component.go) and in the workload (WorkloadSpec of llm_inference_service_types.go). A
predictor with a model has the model's container in place of the list of containers.
"""

from collections.abc import Iterator

from trackbed.cluster.jobs.kinds.job_set import choose_gpu_users
from trackbed.cluster.jobs.kinds.kind import JobKind, Template
from trackbed.cluster.jobs.kinds.pod_specs import view_container, view_pod_spec
from trackbed.cluster.jobs.template import Mapping, read_mapping

_MODELS = (
    *("model", "sklearn", "xgboost", "tensorflow", "pytorch", "triton"),
    *("onnx", "huggingface", "pmml", "lightgbm", "paddle"),
)
"""Fields of a predictor that hold the container of a model (PredictorSpec of predictor.go)."""
_VERSIONS = ("serving.kserve.io/v1alpha1", "serving.kserve.io/v1alpha2")


def _iter_predictor_templates(service: Mapping, gpu_resource: str) -> Iterator[Template]:
    predictor, path = read_mapping(service, "spec", "predictor"), "spec.predictor"
    templates = []
    model = next((name for name in _MODELS if read_mapping(predictor, name)), None)
    if predictor.get("containers"):
        templates.append(view_pod_spec(predictor, predictor, path, path, "predictor"))
    elif model is not None:
        templates.append(_view_model(predictor, model, path))
    worker = read_mapping(predictor, "workerSpec")
    if worker.get("containers"):
        templates.append(view_pod_spec(worker, predictor, f"{path}.workerSpec", path, "worker"))
    return choose_gpu_users(templates, gpu_resource)


def _view_model(predictor: Mapping, model: str, path: str) -> Template:
    """Return a predictor as a template; its annotations are its own field."""
    view = view_container(predictor, model, path, "predictor")
    places = (("spec.containers[0]", f"{path}.{model}"), ("spec", path), ("metadata", path))
    return view._replace(template={"metadata": predictor, "spec": view.template["spec"]}, places=places)


def _iter_workload_templates(service: Mapping, gpu_resource: str) -> Iterator[Template]:
    templates = []
    for role, keys in (("", ("spec",)), ("prefill", ("spec", "prefill"))):
        workload, path = read_mapping(service, *keys), ".".join(keys)
        for field in ("template", "worker"):
            pod_spec = read_mapping(workload, field)
            if pod_spec.get("containers"):
                title = f"{role} {field}".strip()
                templates.append(view_pod_spec(pod_spec, workload, f"{path}.{field}", path, title))
    return choose_gpu_users(templates, gpu_resource)


KINDS = (
    JobKind("inferenceservice", "InferenceService", ("serving.kserve.io/v1beta1",), _iter_predictor_templates),
    JobKind("llminferenceservice", "LLMInferenceService", _VERSIONS, _iter_workload_templates),
    JobKind(
        "llminferenceserviceconfig",
        "LLMInferenceServiceConfig",
        _VERSIONS,
        _iter_workload_templates,
        states_gpus=False,
    ),
)
