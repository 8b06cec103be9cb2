from __future__ import annotations

import copy
import io
import math
import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from ao_kernels import (
    Float8Tensor,
    Float8WeightOnlyConfig,
    Int4PackingFormat,
    Int4PlainInt32Tensor,
    Int4PlainTensor,
    Int4WeightOnlyConfig,
    Int8Tensor,
    Int8WeightOnlyConfig,
    quantize_,
)
from ao_kernels.quantized import QuantizedTensor
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from tests.servers.prepared import TORCH, run_prepared

if TYPE_CHECKING:
    from ao_kernels.quantize import Config

PACKAGE = Path(__file__).parents[2] / "package"
PLAIN_INT32 = Int4PackingFormat.PLAIN_INT32
CONFIGS = [
    pytest.param(Int4WeightOnlyConfig(group_size=32), id="int4-plain"),
    pytest.param(Int4WeightOnlyConfig(group_size=32, packing_format=PLAIN_INT32), id="int4-plain-int32"),
    pytest.param(Int8WeightOnlyConfig(), id="int8"),
    pytest.param(Float8WeightOnlyConfig(), id="float8"),
]
# How much a model may lose to bfloat16: of its perplexity, in parts of it, and in nats from its distributions.
LOSSES = {
    Int4PlainTensor: (0.02, 5e-3),
    Int4PlainInt32Tensor: (0.02, 5e-3),
    Int8Tensor: (2e-3, 2e-4),
    Float8Tensor: (4e-3, 1e-3),
}

every_config = pytest.mark.parametrize("config", CONFIGS)


class Block(nn.Module):
    """A transformer's block, of which every matrix is the weight of a linear module."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_widening = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        normal = self.before_attention(x)
        query, key, value = (
            part(normal).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(seen.transpose(1, 2).flatten(2))
        result: Tensor = x + self.narrow(functional.relu(self.wide(self.before_widening(x))))
        return result


class BlockOfTorch(nn.TransformerEncoderLayer):
    """Torch's own: the matrices of query, key and value are one parameter, which no module has as its weight."""

    def __init__(self, width: int) -> None:
        super().__init__(width, 4, 4 * width, dropout=0, batch_first=True, norm_first=True)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        return super().forward(x, src_mask=mask, is_causal=True)


class LanguageModel(nn.Module):
    """Says which symbol comes next, after each of those so far."""

    def __init__(self, block: Callable[[int], nn.Module] = Block, symbols: int = 64, width: int = 128) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.block = block(width)
        self.head = nn.Linear(width, symbols, bias=False)

    def forward(self, text: Tensor) -> Tensor:
        logits: Tensor = self.head(self.block(self.embedding(text)))
        return logits


blocks = pytest.mark.parametrize("block", [Block, BlockOfTorch])


def plain_matrices(module: nn.Module) -> list[str]:
    return [
        name
        for name, parameter in module.named_parameters()
        if parameter.dim() == 2 and not isinstance(parameter, QuantizedTensor)
    ]


def made_up_text(chance: Tensor, lines: int, seed: int) -> Tensor:
    """Lines of 24 symbols, each of which makes the next one more or less likely."""
    random = torch.Generator().manual_seed(seed)
    text = torch.randint(len(chance), (lines, 1), generator=random)
    for _ in range(23):
        text = torch.cat((text, torch.multinomial(chance[text[:, -1]], 1, generator=random)), dim=1)
    return text


@pytest.fixture(scope="module")
def chance() -> Tensor:
    return (2 * torch.randn(64, 64, generator=torch.Generator().manual_seed(0))).softmax(-1)


@pytest.fixture(scope="module")
def trained(chance: Tensor) -> LanguageModel:
    torch.manual_seed(0)
    model = LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for step in range(80):
        text = made_up_text(chance, 32, seed=step)
        loss = functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.bfloat16().eval()


def log_chances(model: nn.Module, text: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.log_softmax(model(text[:, :-1]).double(), dim=-1).flatten(0, 1)


@pytest.mark.slow
@every_config
def test_a_language_model_says_nearly_what_it_said_before(
    trained: LanguageModel, chance: Tensor, config: Config
) -> None:
    text = made_up_text(chance, 256, seed=-1)
    model = copy.deepcopy(trained)
    quantize_(model, config)
    assert plain_matrices(model) == ["embedding.weight"]
    before, after = log_chances(trained, text), log_chances(model, text)
    perplexity, quantized = (
        math.exp(functional.nll_loss(chances, text[:, 1:].flatten())) for chances in (before, after)
    )
    divergence = functional.kl_div(after, before, log_target=True, reduction="batchmean")
    print(f"{config}: perplexity {perplexity:.3f} to {quantized:.3f}, {divergence:.1e} nats")  # noqa: T201 - with -s
    loss, nats = LOSSES[config.tensor]
    assert perplexity < 45  # of 64 symbols: it has learnt something
    assert quantized / perplexity - 1 < loss
    assert divergence < nats


@every_config
@blocks
def test_a_transformer_block_is_saved_and_loaded(config: Config, block: Callable[[int], nn.Module]) -> None:
    model, file = LanguageModel(block).bfloat16().eval(), io.BytesIO()
    quantize_(model, config)
    torch.save(model.state_dict(), file)
    file.seek(0)
    with torch.device("meta"):
        loaded = LanguageModel(block).bfloat16().eval()
    loaded.load_state_dict(torch.load(file, weights_only=True), assign=True)
    text = torch.arange(24).view(2, 12)
    assert torch.equal(loaded(text), model(text))


@every_config
@blocks
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_a_transformer_block_runs_in_every_mode(
    config: Config, block: Callable[[int], nn.Module], mode: Callable[[], torch.no_grad]
) -> None:
    model = LanguageModel(block).bfloat16().eval()
    quantize_(model, config)
    with mode():
        assert model(torch.arange(24).view(2, 12)).isfinite().all()


@pytest.fixture
def slow_path() -> Iterator[None]:
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(True)


@pytest.mark.usefixtures("slow_path")
@blocks
def test_a_transformer_block_compiles_without_a_break(block: Callable[[int], nn.Module]) -> None:
    model, text = LanguageModel(block).bfloat16().eval(), torch.arange(24).view(2, 12)
    quantize_(model, Int4WeightOnlyConfig(group_size=32))
    torch.compiler.reset()
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(text), model(text), rtol=0.02, atol=0.02)


def test_what_torch_runs_as_one_operator_is_refused_with_the_remedy() -> None:
    model, text = LanguageModel(BlockOfTorch).bfloat16().eval(), torch.arange(24).view(2, 12)
    quantize_(model, Int4WeightOnlyConfig(group_size=32))
    torch.compiler.reset()
    with torch.no_grad(), pytest.raises(Exception, match=r"call torch\.backends\.mha\.set_fastpath_enabled\(False\)"):
        torch.compile(model, fullgraph=True, backend="aot_eager")(text)


@pytest.mark.parametrize(
    ("config", "tensor", "group_size"),
    [
        pytest.param(Int4WeightOnlyConfig(), Int4PlainTensor, 128, id="int4"),
        pytest.param(Int4WeightOnlyConfig(group_size=64), Int4PlainTensor, 64, id="group-size"),
        pytest.param(Int4WeightOnlyConfig(32), Int4PlainTensor, 32, id="group-size-by-place"),
        pytest.param(Int4WeightOnlyConfig(int4_packing_format=PLAIN_INT32), Int4PlainInt32Tensor, 128, id="torchao"),
        pytest.param(Int8WeightOnlyConfig(64), Int8Tensor, 64, id="int8-by-place"),
        pytest.param(Int4WeightOnlyConfig(packing_format=PLAIN_INT32), Int4PlainInt32Tensor, 128, id="packing"),
        pytest.param(Int8WeightOnlyConfig(), Int8Tensor, 256, id="int8-row"),
        pytest.param(Int8WeightOnlyConfig(group_size=32), Int8Tensor, 32, id="int8-group"),
        pytest.param(Float8WeightOnlyConfig(), Float8Tensor, 256, id="float8-row"),
    ],
)
def test_a_config_chooses_the_tensor(config: Config, tensor: type[QuantizedTensor], group_size: int) -> None:
    linear = nn.Linear(256, 8)
    quantize_(linear, config)
    assert isinstance(linear.weight, tensor)
    assert linear.weight.group_size == group_size
    assert isinstance(linear.weight, nn.Parameter)
    assert not linear.weight.requires_grad


def small_model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(128, 128), nn.Embedding(8, 128), nn.Sequential(nn.Linear(128, 8), nn.ReLU()))


def test_linear_modules_are_chosen_by_default() -> None:
    model = small_model()
    quantize_(model, Int8WeightOnlyConfig())
    quantize_(model, Int4WeightOnlyConfig())  # leaves alone what is quantized
    assert [type(module.weight) for module in (model[0], model[1], model[2][0])] == [
        Int8Tensor,
        nn.Parameter,
        Int8Tensor,
    ]


def test_a_filter_chooses_by_module_and_name() -> None:
    model = small_model()
    quantize_(model, Int8WeightOnlyConfig(), filter_fn=lambda module, name: name == "2.0" and hasattr(module, "bias"))
    assert [type(module.weight) for module in (model[0], model[2][0])] == [nn.Parameter, Int8Tensor]


def test_a_shared_weight_stays_shared() -> None:
    model = nn.Sequential(nn.Linear(128, 128), nn.Linear(128, 128))
    model[1].weight = model[0].weight
    quantize_(model, Int4WeightOnlyConfig())
    assert model[0].weight is model[1].weight


def test_a_module_is_moved_before_it_is_quantized() -> None:
    linear = nn.Linear(128, 8)
    quantize_(linear, Int4WeightOnlyConfig(), device="meta")
    assert (linear.weight.device.type, linear.bias.device.type) == ("meta", "meta")


def test_every_module_that_does_not_fit_is_named_and_none_is_changed() -> None:
    model = nn.Sequential(nn.Linear(128, 8), nn.Linear(100, 8), nn.ReLU(), nn.LayerNorm(128))
    with pytest.raises(
        ValueError, match=r"^1: .*a multiple of group_size 128, got 100; 2: ReLU has no weight; 3: .*1\."
    ):
        quantize_(model, Int4WeightOnlyConfig(), filter_fn=lambda _, name: bool(name))
    assert type(model[0].weight) is nn.Parameter


def test_a_module_without_a_shape_is_named() -> None:
    for model in (nn.Sequential(nn.Linear(128, 8), nn.LazyLinear(8, bias=False)), nn.LazyConv2d(8, 3, bias=False)):
        with pytest.raises(ValueError, match=r"^(1\.)?weight: no shape yet\. Call the model once, which gives lazy"):
            quantize_(model, Int4WeightOnlyConfig())


def test_a_weight_that_cannot_be_quantized_again_is_named() -> None:
    linear = nn.Linear(128, 8)
    quantize_(linear, Int8WeightOnlyConfig())
    with pytest.raises(ValueError, match="the model: weight is quantized already"):
        quantize_(linear, Int8WeightOnlyConfig(), filter_fn=lambda *_: True)


@pytest.mark.parametrize("config", [Int4WeightOnlyConfig, Int8WeightOnlyConfig, Float8WeightOnlyConfig])
@pytest.mark.parametrize(
    ("group_size", "error", "message"),
    [
        pytest.param(0, ValueError, "group_size must be at least 1, got 0", id="nothing"),
        pytest.param("32", TypeError, "group_size must be a whole number, got '32'", id="text"),
        pytest.param(32.0, TypeError, r"group_size must be a whole number, got 32\.0", id="float"),
        pytest.param(True, TypeError, "group_size must be a whole number, got True", id="bool"),
    ],
)
def test_a_group_size_that_is_none_is_named(
    config: Callable[..., Config], group_size: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        config(group_size=group_size)


def test_int4_has_no_scale_for_whole_rows() -> None:
    with pytest.raises(TypeError, match="group_size must be a whole number, got None"):
        Int4WeightOnlyConfig(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("config", [Int4WeightOnlyConfig, None, "int4", {"group_size": 32}], ids=repr)
def test_what_is_no_config_is_named(config: Config) -> None:
    with pytest.raises(TypeError, match=r"^config must be one such as Int4WeightOnlyConfig\(group_size=128\), got"):
        quantize_(nn.Linear(128, 8), config)


def with_old_norm(norm: Callable[..., nn.Module]) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch prefers the parametrizations
        return norm(nn.Linear(128, 8))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        pytest.param(weight_norm(nn.Linear(128, 8)), "1: weight must be a parameter, got what", id="weight-norm"),
        pytest.param(with_old_norm(nn.utils.weight_norm), "1: weight must be a parameter, got", id="old-weight-norm"),
        pytest.param(with_old_norm(nn.utils.spectral_norm), "1: weight must be a parameter", id="old-spectral-norm"),
        pytest.param(nn.Embedding(8, 128), "is multiplied by, got that of Embedding", id="embedding"),
        pytest.param(nn.Conv1d(8, 8, 128), "is multiplied by, got that of Conv1d", id="convolution"),
        pytest.param(nn.LayerNorm(128, elementwise_affine=False), "1: LayerNorm has no weight", id="no-weight"),
    ],
)
def test_a_module_whose_weight_cannot_be_replaced_is_named_and_none_is_changed(module: nn.Module, message: str) -> None:
    model = nn.Sequential(nn.Linear(128, 8), module)
    with pytest.raises(ValueError, match=message):
        quantize_(model, Int4WeightOnlyConfig(), filter_fn=lambda _, name: name in {"0", "1"})
    assert type(model[0].weight) is nn.Parameter


def test_a_model_is_as_it_was_when_a_weight_fails() -> None:
    model = nn.Sequential(nn.Linear(128, 8), nn.Linear(128, 8, device="meta"))
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        quantize_(model, Int4WeightOnlyConfig(), device="cpu")
    assert type(model[0].weight) is nn.Parameter


@every_config
def test_fake_weights_are_quantized(config: Config) -> None:
    with FakeTensorMode():
        linear = nn.Linear(128, 8, dtype=torch.bfloat16)
        quantize_(linear, config)
        assert isinstance(linear.weight, config.tensor)
        assert linear(torch.ones(2, 128, dtype=torch.bfloat16)).shape == (2, 8)


def test_a_quantized_model_compiles_for_any_batch_in_inference_mode() -> None:
    model = small_model()[2]
    quantize_(model, Int4WeightOnlyConfig())
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch.inference_mode():
        for rows in (2, 3, 5):
            assert torch.equal(compiled(torch.ones(rows, 128)), model(torch.ones(rows, 128)))


@pytest.mark.slow
def test_what_the_readme_shows_runs(tmp_path: Path) -> None:
    readme = (PACKAGE / "README.md").read_text(encoding="utf-8")
    strict = "import warnings; warnings.simplefilter('error')"
    program = "\n".join([strict, *re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)])
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE / "src")}
    done = run_prepared(["-c", program], cwd=tmp_path, env=environment, program=TORCH)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model.safetensors").exists()


def test_an_unknown_packing_format_is_named() -> None:
    with pytest.raises(ValueError, match="packing_format must be one of plain, plain_int32, got tiled"):
        Int4WeightOnlyConfig(packing_format="tiled")  # type: ignore[arg-type]


def test_a_packing_format_by_both_names_must_be_one() -> None:
    plain, int32 = Int4PackingFormat.PLAIN, PLAIN_INT32
    assert Int4WeightOnlyConfig(packing_format=int32, int4_packing_format=int32).packing_format is int32
    with pytest.raises(ValueError, match="int4_packing_format must be packing_format by another name"):
        Int4WeightOnlyConfig(packing_format=int32, int4_packing_format=plain)


class TinyExperts(nn.Module):
    """Two layers of four experts, as transformers holds them."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(4, 64, 128, generator=torch.Generator().manual_seed(0)).bfloat16() / 8)
        self.down = nn.Parameter(torch.randn(4, 128, 64, generator=torch.Generator().manual_seed(1)).bfloat16() / 8)

    def forward(self, x: Tensor, ends: Tensor) -> Tensor:
        wide = functional.silu(functional.grouped_mm(x, self.up.transpose(-2, -1), offs=ends))
        return functional.grouped_mm(wide, self.down.transpose(-2, -1), offs=ends)


class Router(nn.Module):
    """A layer of which experts are the greater part."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.gate, self.experts = nn.Embedding(8, 128), nn.Linear(128, 4), TinyExperts()


@every_config
def test_experts_are_quantized_and_multiplied(config: Config) -> None:
    experts = TinyExperts()
    x, ends = torch.randn(9, 128).bfloat16(), torch.tensor([2, 2, 7, 9], dtype=torch.int32)
    expected = experts(x, ends)
    quantize_(experts, config)
    assert all(isinstance(weight, config.tensor) for weight in experts.parameters())
    for product in (experts(x, ends), torch.cat([one_expert(experts, x[:2], 0), one_expert(experts, x[2:7], 2)])):
        error = (product - expected[: len(product)]).float().norm() / expected[: len(product)].float().norm()
        assert error < 0.2


def one_expert(experts: TinyExperts, x: Tensor, index: int) -> Tensor:
    return functional.linear(functional.silu(functional.linear(x, experts.up[index])), experts.down[index])


def test_what_is_left_is_told_with_its_share(caplog: pytest.LogCaptureFixture) -> None:
    quantize_(Router(), Int8WeightOnlyConfig(), filter_fn=lambda module, _: isinstance(module, nn.Linear))
    (record,) = caplog.records
    shown = "99% of the parameters stay as they are: experts.up, experts.down, embedding.weight"
    assert record.getMessage() == shown


def test_strict_refuses_what_could_be_multiplied_by() -> None:
    model = Router()
    with pytest.raises(ValueError, match=r"^strict, but 98% of the .* stay as they are: experts\.up, experts\.down$"):
        quantize_(model, Int8WeightOnlyConfig(), filter_fn=lambda _, name: name == "gate", strict=True)
    assert type(model.gate.weight) is nn.Parameter
    quantize_(model, Int8WeightOnlyConfig(), strict=True)
    assert isinstance(model.experts.up, Int8Tensor)


def test_the_matrix_of_torchs_attention_is_told(caplog: pytest.LogCaptureFixture) -> None:
    quantize_(nn.TransformerEncoderLayer(64, 4, 128), Int8WeightOnlyConfig())
    assert "self_attn.in_proj_weight" in caplog.text
