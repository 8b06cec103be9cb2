"""What people do with their libraries, on tiny models: each function runs in an environment that has them."""

# ruff: noqa: PLC0415 - not every function needs every library
# mypy: disable-error-code="import-not-found,import-untyped,no-untyped-call,attr-defined,index,operator"

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import ao_kernels
import pytest
import torch
from ao_kernels.quantized import QuantizedTensor
from torch import Tensor, nn

TEXT = torch.arange(12).view(2, 6) % 64
# Of a model that takes a second.
SIZES = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}


def tiny_model() -> Any:  # noqa: ANN401 - transformers says no types
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES)).bfloat16().eval()


def saved_model(folder: str) -> None:
    tiny_model().save_pretrained(folder)


def quantized_model() -> Any:  # noqa: ANN401 - see above
    model = tiny_model()
    ao_kernels.quantize_(model.model, ao_kernels.Int4WeightOnlyConfig(32))
    return model


def quantized_weights(model: nn.Module) -> list[Tensor]:
    return [parameter for parameter in model.parameters() if isinstance(parameter, QuantizedTensor)]


def transformers_quantizes_saves_and_loads() -> None:
    from ao_kernels.transformers import FORMATS, AoKernelsConfig
    from transformers import AutoModelForCausalLM

    for weights in FORMATS:
        with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as quantized:
            saved_model(plain)
            config = AoKernelsConfig(weights, group_size=32)
            model = AutoModelForCausalLM.from_pretrained(plain, quantization_config=config, dtype=torch.bfloat16)
            assert len(quantized_weights(model)) == 14
            assert model.get_memory_footprint() < tiny_model().get_memory_footprint()
            model.save_pretrained(quantized)
            again = AutoModelForCausalLM.from_pretrained(quantized, dtype=torch.bfloat16)
            assert len(quantized_weights(again)) == 14
            assert torch.equal(again(TEXT).logits, model(TEXT).logits)
            text = again.generate(TEXT, max_new_tokens=4, do_sample=False)
            assert torch.equal(text, model.generate(TEXT, max_new_tokens=4, do_sample=False))
            assert torch.allclose(model.dequantize()(TEXT).logits, again(TEXT).logits, atol=0.2)


def transformers_resizes_embeddings() -> None:
    model = tiny_model()
    ao_kernels.quantize_(model, ao_kernels.Int8WeightOnlyConfig())
    assert isinstance(model.lm_head.weight, QuantizedTensor)
    model.resize_token_embeddings(80)
    assert model(TEXT).logits.shape == (2, 6, 80)


def peft_trains_an_adapter_and_merges_it() -> None:
    from peft import LoraConfig, get_peft_model

    for is_dora in (False, True):
        model = quantized_model()
        before = model(TEXT).logits
        config = LoraConfig(r=4, target_modules=["q_proj", "down_proj"], use_dora=is_dora, init_lora_weights=False)
        adapted = get_peft_model(model, config)
        optimizer = torch.optim.SGD([one for one in adapted.parameters() if one.requires_grad], 0.1)
        losses = []
        for _ in range(3):
            losses.append(adapted(TEXT, labels=TEXT).loss)
            optimizer.zero_grad()
            losses[-1].backward()
            optimizer.step()
        assert losses[-1] < losses[0]
        expected = adapted.eval()(TEXT).logits
        merged = adapted.merge_and_unload()
        assert len(quantized_weights(merged)) == 14
        assert not torch.equal(merged(TEXT).logits, before)
        error = (merged(TEXT).logits - expected).float().norm() / expected.float().norm()
        assert error < 0.3, error


def accelerate_prepares_and_saves() -> None:
    from accelerate import Accelerator, load_checkpoint_in_model

    model = quantized_model()
    expected = model(TEXT).logits
    accelerator = Accelerator(cpu=True)
    prepared = accelerator.prepare(model)
    assert torch.equal(prepared(TEXT).logits, expected)
    ao_kernels.flatten_when_saved(model)
    other = quantized_model()
    with torch.no_grad():
        for weight in quantized_weights(other):
            weight.zero_()
    ao_kernels.flatten_when_saved(other)
    with tempfile.TemporaryDirectory() as folder:
        accelerator.save_model(prepared, folder)
        load_checkpoint_in_model(other, folder, full_state_dict=True, strict=False)
    assert torch.equal(other(TEXT).logits, expected)


def accelerate_offloads() -> None:
    from accelerate import cpu_offload, disk_offload

    expected = quantized_model()(TEXT).logits
    assert torch.equal(cpu_offload(quantized_model(), execution_device=torch.device("cpu"))(TEXT).logits, expected)
    with tempfile.TemporaryDirectory() as folder:
        offloaded = disk_offload(quantized_model(), folder, execution_device=torch.device("cpu"))
        error = (offloaded(TEXT).logits - expected).float().norm() / expected.float().norm()
        assert error < 0.02, error  # what is on disk are the numbers, in bfloat16


def accelerate_makes_a_model_without_memory() -> None:
    from accelerate import init_empty_weights

    with init_empty_weights():
        model = two_layers(0)
    model.load_state_dict(two_layers(1).state_dict(), assign=True)
    x = torch.ones(3, 64, dtype=torch.bfloat16)
    assert torch.equal(model(x), two_layers(1)(x))


def dcp_saves_and_loads() -> None:
    import torch.distributed.checkpoint as dcp

    linear, other = two_layers(0), two_layers(1)
    with tempfile.TemporaryDirectory() as folder:
        dcp.save({"model": linear.state_dict()}, checkpoint_id=folder)
        state = {"model": other.state_dict()}
        dcp.load(state, checkpoint_id=folder)
        other.load_state_dict(state["model"])
    assert torch.equal(other[0].weight, linear[0].weight)
    assert torch.equal(other[2].weight, linear[2].weight)


def on_two_processes(work: Callable[[int], None]) -> None:
    """Run a function on two processes of gloo's."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_one_of_two, (work, folder), nprocs=2)


def _one_of_two(rank: int, work: Callable[[int], None], folder: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    work(rank)
    torch.distributed.destroy_process_group()


def two_layers(seed: int, tensor: str = "Int4WeightOnlyConfig") -> nn.Sequential:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32)).bfloat16()
    ao_kernels.quantize_(model, getattr(ao_kernels, tensor)(32))
    return model


def _under_ddp(rank: int) -> None:
    for tensor in ("Int4WeightOnlyConfig", "Int8WeightOnlyConfig", "Float8WeightOnlyConfig"):
        model = nn.parallel.DistributedDataParallel(two_layers(rank, tensor))
        x = torch.ones(3, 64, dtype=torch.bfloat16)
        model(x).sum().backward()
        assert torch.equal(model.module[0].weight, two_layers(0, tensor)[0].weight)
        assert torch.equal(model(x), two_layers(0, tensor)(x))


def ddp_starts_all_processes_alike() -> None:
    on_two_processes(_under_ddp)


def _in_parts(rank: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    expected = two_layers(0)(x)
    model = parallelize_module(
        two_layers(rank), init_device_mesh("cpu", (2,)), {"0": ColwiseParallel(), "2": RowwiseParallel()}
    )
    assert isinstance(model[0].weight.to_local(), QuantizedTensor)
    torch.testing.assert_close(model(x), expected, rtol=0.02, atol=0.05)


def tp_shards_layers() -> None:
    on_two_processes(_in_parts)


def _fully_sharded(rank: int) -> None:
    from torch.distributed.fsdp import fully_shard

    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    expected = two_layers(0)(x)
    model = two_layers(0)
    for layer in (model[0], model[2]):
        fully_shard(layer)
    fully_shard(model)
    assert isinstance(model[0].weight.to_local(), QuantizedTensor)
    assert model[0].weight.to_local().shape == (64, 64)
    for _ in range(2):
        assert torch.equal(model(x), expected)
    model(x).sum().backward()
    del rank


def fsdp_shards_layers() -> None:
    on_two_processes(_fully_sharded)


def transformers_quantizes_experts() -> None:
    from transformers import MixtralConfig, MixtralForCausalLM

    torch.manual_seed(0)
    model = MixtralForCausalLM(MixtralConfig(num_local_experts=4, **SIZES)).bfloat16().eval()
    expected = model(TEXT).logits
    ao_kernels.quantize_(model, ao_kernels.Int8WeightOnlyConfig(), strict=False)
    share = sum(one.numel() for one in quantized_weights(model)) / sum(one.numel() for one in model.parameters())
    assert share > 0.9, share
    for backend in ("eager", "grouped_mm"):
        model.set_experts_implementation(backend)
        error = (model(TEXT).logits - expected).float().norm() / expected.float().norm()
        assert error < 0.1, (backend, error)


def torchao_quantizes_by_our_configs_and_we_by_its() -> None:
    import ao_kernels.torchao
    import torchao.quantization as theirs
    from torchao.quantization.granularity import PerGroup

    x = torch.ones(2, 64, dtype=torch.bfloat16)
    for config in (ao_kernels.Int4WeightOnlyConfig(32), ao_kernels.Int8WeightOnlyConfig()):
        linear = nn.Linear(64, 32).bfloat16()
        theirs.quantize_(linear, config)
        assert isinstance(linear.weight, config.tensor)
        linear(x)
    for config, group_size in (
        (theirs.Int4WeightOnlyConfig(group_size=32), 32),
        (theirs.Int8WeightOnlyConfig(), 64),
        (theirs.Int8WeightOnlyConfig(granularity=PerGroup(32)), 32),
        (theirs.Float8WeightOnlyConfig(), 64),
    ):
        linear = nn.Linear(64, 32).bfloat16()
        ao_kernels.quantize_(linear, config)
        assert isinstance(linear.weight, QuantizedTensor)
        assert linear.weight.group_size == group_size
    with pytest.raises(ValueError, match="of torchao's configs, Int4WeightOnlyConfig"):
        ao_kernels.quantize_(nn.Linear(64, 32), theirs.Int8DynamicActivationInt8WeightConfig())


def torchao_reads_our_files_and_we_its() -> None:
    import torchao.quantization as theirs
    from torchao.prototype.safetensors import safetensors_support as support

    for config, ours in (
        (theirs.Int8WeightOnlyConfig(), ao_kernels.Int8WeightOnlyConfig()),
        (theirs.Float8WeightOnlyConfig(), ao_kernels.Float8WeightOnlyConfig()),
    ):
        linear = nn.Sequential(nn.Linear(64, 32).bfloat16())
        theirs.quantize_(linear, config)
        read, left = ao_kernels.unflatten_tensor_state_dict(*support.flatten_tensor_state_dict(linear.state_dict()))
        assert not left
        assert isinstance(read["0.weight"], QuantizedTensor)
        assert torch.equal(read["0.weight"].dequantize(), linear[0].weight.dequantize())
        again = nn.Sequential(nn.Linear(64, 32).bfloat16())
        ao_kernels.quantize_(again, ours)
        flat = ao_kernels.flatten_tensor_state_dict(again.state_dict(), for_torchao=True)
        state_dict, left = support.unflatten_tensor_state_dict(*flat)
        assert not left
        assert torch.equal(state_dict["0.weight"].dequantize(), again[0].weight.dequantize())
        assert torch.equal(ao_kernels.unflatten_tensor_state_dict(*flat)[0]["0.weight"], again[0].weight)
    for packing in ao_kernels.Int4PackingFormat:
        four = nn.Sequential(nn.Linear(64, 32).bfloat16())
        ao_kernels.quantize_(four, ao_kernels.Int4WeightOnlyConfig(32, packing_format=packing))
        flat = ao_kernels.flatten_tensor_state_dict(four.state_dict(), for_torchao=True)
        theirs_again = support.unflatten_tensor_state_dict(*flat)[0]
        assert type(theirs_again["0.weight"]).__module__.startswith("torchao")
        back = ao_kernels.unflatten_tensor_state_dict(*support.flatten_tensor_state_dict(theirs_again))[0]
        assert torch.equal(back["0.weight"], four[0].weight)


def compressed_tensors_packs_as_we_read() -> None:
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    values = torch.randint(-8, 8, (16, 64), dtype=torch.int8)
    zeros = torch.randint(-8, 8, (16, 2), dtype=torch.int8)
    scale = torch.rand(16, 2).half()
    parts = {
        "0.weight_packed": pack_to_int32(values, 4),
        "0.weight_scale": scale,
        "0.weight_shape": torch.tensor([16, 64]),
        "0.weight_zero_point": pack_to_int32(zeros, 4, packed_dim=0),
    }
    weights = {"num_bits": 4, "group_size": 32}
    config = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"0": {"weights": weights}},
    }
    read = ao_kernels.read_checkpoint(parts, config)["0.weight"]
    expected = (values.double() - zeros.repeat_interleave(32, 1)) * scale.repeat_interleave(32, 1).double()
    assert torch.equal(read.to(torch.float32).dequantize().double(), expected)


LIBRARIES = {"transformers", "peft", "accelerate", "dcp", "ddp", "tp", "fsdp", "torchao", "compressed"}
