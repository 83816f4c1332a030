"""What a person pastes to talk to their model. The same words in every language: code is not translated."""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.conf import settings

PLACEHOLDER = "sk-ark-..."


@dataclass(frozen=True)
class Snippet:
    key: str
    name: str
    text: str


def snippets(model: str, key: str = "") -> list[Snippet]:
    """`key` is one that was just made; without it, a placeholder."""
    base, key = f"{settings.GATEWAY_URL}/v1", key or PLACEHOLDER
    named = json.dumps(model)
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello"}]})
    return [
        Snippet(
            "curl",
            "curl",
            f"curl {base}/chat/completions \\\n"
            f'  -H "Authorization: Bearer {key}" \\\n'
            '  -H "Content-Type: application/json" \\\n'
            f"  -d '{body}'",
        ),
        Snippet(
            "python",
            "Python",
            "from openai import OpenAI\n\n"
            f'client = OpenAI(base_url="{base}", api_key="{key}")\n'
            "answer = client.chat.completions.create(\n"
            f"    model={named},\n"
            '    messages=[{"role": "user", "content": "Hello"}],\n'
            ")\n"
            "print(answer.choices[0].message.content)",
        ),
        Snippet(
            "javascript",
            "JavaScript",
            'import OpenAI from "openai";\n\n'
            f'const client = new OpenAI({{ baseURL: "{base}", apiKey: "{key}" }});\n'
            "const answer = await client.chat.completions.create({\n"
            f"  model: {named},\n"
            '  messages: [{ role: "user", content: "Hello" }],\n'
            "});\n"
            "console.log(answer.choices[0].message.content);",
        ),
    ]
