"""What all parts of the model share: frozen parts, and leaves with a meaning."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(strict=True, min_length=1)]
Seconds = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
SecondsOrNone = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class Frozen(BaseModel):
    """What all parts share: frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
