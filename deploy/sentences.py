"""What is said of each reason code. Sorted; whoever raises a new code adds its row here (a test looks).

Parameters of a code are written as `%(name)s`; deploy.reasons says how each is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True, slots=True)
class Row:
    """What happened, and what to do about it. Where the parameter `needs` is empty, `otherwise` is suggested."""

    sentence: str | Promise
    suggestion: str | Promise | None = None
    needs: str = ""
    otherwise: str | Promise | None = None


REFUSALS: Final[dict[str, Row]] = {
    "answer_unclear": Row(
        _("The machine's provider gave no clear answer; we are looking whether it made the machine.")
    ),
    "api_token_not_found": Row(_("There is no such API token in this workspace.")),
    "context_too_long": Row(_("A context length must be between 1 and %(longest)s tokens for this model.")),
    "csrf_failed": Row(
        _("This form was open for too long, or was not sent from our own page."),
        _("Go back, load the page again, and send the form once more."),
    ),
    "deployment_unknown": Row(
        _("There is no such deployment in this workspace."),
        _("Look in your list of deployments, or switch to another workspace."),
    ),
    "email_taken": Row(
        _("There is an account with this e-mail address already."), _("Sign in, or ask for a new password.")
    ),
    "encryption_key_missing": Row(
        _("A secret cannot be read: the key that it was encrypted with is missing."),
        _("Tell us; nothing is lost as long as the key can be found."),
    ),
    "engine_argument_refused": Row(
        _("The engine argument “%(argument)s” cannot be set here."),
        _("Leave it out. What the endpoint, its keys and its files depend on is set by us."),
    ),
    "engine_argument_stray": Row(
        _("The value “%(argument)s” does not belong to any argument."),
        _("Write arguments as --name value or --name=value."),
    ),
    "engine_argument_value": Row(
        _("The value of the engine argument “%(argument)s” is not accepted."),
        _("Give one plain value, or none where the argument is a switch."),
    ),
    "engine_arguments_too_many": Row(_("There are more engine arguments than the %(most)s that are taken.")),
    "engine_driver_too_old": Row(
        _("%(engine)s needs NVIDIA driver %(needs)s or newer, and this machine has %(found)s."),
        _("Choose another GPU or another engine."),
    ),
    "engine_gpu_too_old": Row(
        _("%(engine)s needs a GPU of compute capability %(needs)s or newer."), _("Choose a newer GPU, or llama.cpp.")
    ),
    "engine_needs_gguf": Row(
        _("llama.cpp runs GGUF files, and this model's repository has none."),
        _("Choose vLLM or SGLang, or a repository with GGUF files."),
    ),
    "engine_needs_gpu": Row(
        _("%(engine)s needs a GPU, and this machine has none."), _("Choose a machine with a GPU, or llama.cpp.")
    ),
    "engine_needs_safetensors": Row(
        _("%(engine)s runs safetensors files, and this model's repository has none."),
        _("Choose llama.cpp, which runs GGUF files."),
    ),
    "engine_unknown": Row(_("There is no engine called “%(engine)s”."), _("Choose one of these: %(can)s.")),
    "free_start_used_up": Row(
        _("Your workspace has used its %(minutes)s minutes of free start-up time of the last 24 hours."),
        _("Start it with “let me in early”: it is charged from when the machine can be reached."),
    ),
    "free_starts_at_once": Row(
        _("Your workspace is starting as many deployments as it may for free at once: %(most)s."),
        _("Wait until one of them runs, or start it with “let me in early”: it is charged from its first minute."),
    ),
    "gpu_count": Row(_("The number of GPUs must be one of these: %(can)s.")),
    "gpu_unknown": Row(
        _("There is no GPU called “%(gpu)s” in our catalogue."), _("See the list of GPUs for the names.")
    ),
    "host_mode_unsupported": Row(
        _("The host “%(host)s” cannot be rented: fresh containers and VMs cannot be made yet.")
    ),
    "host_not_resettable": Row(_("The host “%(host)s” cannot be rented: bare metal needs a command that resets it.")),
    "hub_files_missing": Row(
        _("The model's repository does not have a file that it had: %(file)s."),
        _("Ask for a new quote; we look at the repository again."),
    ),
    "hub_garbled": Row(_("The model hub gave an answer that makes no sense."), _("Try again in a few minutes.")),
    "hub_gated": Row(
        _("The model hub does not give this model to your token."),
        _("Accept the model's licence at the hub, and give a token of the same account."),
    ),
    "hub_not_found": Row(
        _("The model hub does not know this model any more."),
        _("Check the repository at the hub; it may have moved or been made private."),
    ),
    "hub_unavailable": Row(
        _("The model hub does not answer as it should (status %(status)s)."), _("Try again in a few minutes.")
    ),
    "idempotency_conflict": Row(
        _("This was asked for before with other figures."), _("Reload the page and look at what is there.")
    ),
    "insufficient_balance": Row(
        _("%(needed)s are needed and %(available)s are available."),
        _("Add credit, or choose a machine that costs less."),
    ),
    "internal_error": Row(_("Something went wrong on our side."), _("Try again; if it stays, tell us.")),
    "invalid_amount": Row(_("This is not an amount of US dollars: it must be positive, with at most six decimals.")),
    "key_not_found": Row(_("There is no such endpoint key in this workspace.")),
    "key_of_workspace": Row(
        _("This key opens every deployment of the workspace, so it is not revoked at one of them."),
        _("Revoke it under Keys, or at /api/v1/keys/."),
    ),
    "last_owner": Row(
        _("A workspace needs an owner: the last one cannot leave or take another role."),
        _("Make somebody else an owner first."),
    ),
    "limit_machines": Row(
        _("Your workspace may have %(most)s machines at once, and has them."),
        _("Stop one, or ask us for a higher limit."),
    ),
    "limit_usd_per_hour": Row(
        _("Your workspace may spend %(most_usd)s per hour, and would spend %(would_be_usd)s."),
        _("Stop a deployment, or ask us for a higher limit."),
    ),
    "machine_unreachable": Row(_("The machine cannot be reached at the moment."), _("Try again in a minute.")),
    "member_already": Row(_("This person is a member of the workspace already.")),
    "member_not_found": Row(_("There is no such member in this workspace.")),
    "member_unknown": Row(_("There is no account with this e-mail address."), _("Ask them to sign up first.")),
    "model_does_not_fit": Row(
        _("The model needs %(needed_gb)s of memory, and this machine has %(there_gb)s."),
        _("Choose more or larger GPUs, or a repository with the model in fewer bits."),
    ),
    "model_reference_address": Row(
        _("This is not the address of a model at Hugging Face."),
        _("Paste the address of a model page at huggingface.co, or its id, such as owner/name."),
    ),
    "model_reference_empty": Row(
        _("No model is named."), _("Paste a model's id, such as owner/name, or the address of its page.")
    ),
    "model_reference_invalid": Row(
        _("This is not the name of a model."), _("Paste a model's id, such as owner/name, or the address of its page.")
    ),
    "model_reference_path": Row(
        _("This is a folder or file of some machine; it cannot be read from here."),
        _("Paste a model's id at Hugging Face, such as owner/name."),
    ),
    "model_reference_size": Row(
        _("This is a size, not a model."),
        _("Paste a model's id, such as owner/name, or the address of its page."),
    ),
    "model_unknown": Row(
        _("We do not know the model “%(model)s”."), _("These can be deployed now: %(can)s."), needs="can"
    ),
    "name_required": Row(_("A name is needed.")),
    "name_too_long": Row(
        _("The name is too long, or has characters that cannot be shown; at most %(most)s are taken.")
    ),
    "net_protocol": Row(_("%(host)s gave an answer that makes no sense."), _("Try again in a few minutes.")),
    "net_redirects": Row(_("%(host)s sends us from one address to the next.")),
    "net_refused_address": Row(_("%(host)s is an address inside a private network; we do not go there.")),
    "net_timeout": Row(_("%(host)s did not answer in time."), _("Try again in a few minutes.")),
    "net_too_large": Row(_("The answer of %(host)s is larger than we take.")),
    "net_unreachable": Row(_("%(host)s cannot be reached."), _("Try again in a few minutes.")),
    "network_invalid": Row(
        _("“%(network)s” is not a network."), _("Write an address or a network, such as 203.0.113.7 or 203.0.113.0/24.")
    ),
    "no_machine": Row(_("There is no machine, so there is no log.")),
    "not_running": Row(_("The engine can only be restarted while it runs; the state is now “%(state)s”.")),
    "not_starting": Row(_("It is over: nobody can be let in any more.")),
    "nothing_to_rent": Row(
        _("There is no machine to rent at the moment."), _("Look again in a few minutes: offers come and go.")
    ),
    "offer_gone": Row(
        _("The offer is gone: somebody else was faster, or the provider took it back."), _("Ask for a new quote.")
    ),
    "only_owner": Row(_("Only an owner may do this.")),
    "only_sample_offers": Row(
        _("The prices shown for this GPU are sample data: nothing can be rented for them here."),
        _("What can be rented now and holds the model: %(next_count)s × %(next_gpu)s for %(next_price)s per hour."),
        needs="next_gpu",
        otherwise=_("No machine that can be rented now holds this model."),
    ),
    "price_changed": Row(
        _("The price changed from %(was)s to %(now)s per hour. Nothing was started and nothing is charged."),
        _("Ask for a new quote to go on with the new price."),
    ),
    "provider_refused": Row(_("The provider did not rent out the machine."), _("Ask for a new quote.")),
    "provider_unreachable": Row(
        _("The machine's provider cannot be reached at the moment."), _("Try again in a few minutes.")
    ),
    "public_key_invalid": Row(
        _("This is not one line of a public SSH key."), _("Paste the content of a file such as id_ed25519.pub.")
    ),
    "quote_expired": Row(_("The quote has expired: it was good for five minutes."), _("Ask for a new one.")),
    "quote_unknown": Row(_("There is no such quote in this workspace."), _("Ask for a new one.")),
    "role_forbids": Row(
        _("Your role in this workspace, %(role)s, does not permit this."), _("Ask an owner for another role.")
    ),
    "role_unknown": Row(_("There is no such role.")),
    "sold_out": Row(
        _("There is no machine of this kind to rent at the moment."),
        _("What can be rented now and holds the model: %(next_count)s × %(next_gpu)s for %(next_price)s per hour."),
        needs="next_gpu",
        otherwise=_("Look again in a few minutes: offers come and go."),
    ),
    "ssh_key_invalid": Row(
        _("This is not a public SSH key."), _("Paste the content of a file such as id_ed25519.pub, on one line.")
    ),
    "ssh_key_not_found": Row(_("There is no such SSH key.")),
    "ssh_key_private": Row(
        _("This is a private key: it must never leave your machine. We did not keep it."),
        _("Paste the public key, from the file that ends in .pub, and consider making a new pair."),
    ),
    "ssh_key_type": Row(
        _("SSH keys of this type are not taken, nor are options in front of a key."),
        _("Use an Ed25519, ECDSA or RSA key."),
    ),
    "ssh_key_weak": Row(
        _("This RSA key has %(bits)s bits; at least %(least)s are needed."), _("Make a new key: ssh-keygen -t ed25519.")
    ),
    "ssh_keys_too_many": Row(_("At most %(most)s SSH keys can be let in.")),
    "token_invalid": Row(_("This is not a token of a model hub."), _("Copy it again, without spaces.")),
    "token_not_found": Row(_("There is no such API token in this workspace.")),
    "token_read_only": Row(_("This API token may read and not change anything."), _("Use a token with all rights.")),
    "too_many": Row(_("There are as many as there may be: %(most)s."), _("Remove one that is not needed any more.")),
    "too_many_networks": Row(_("At most %(most)s networks can be named.")),
    "too_many_requests": Row(_("This was asked for too often."), _("Try again in a minute.")),
    "try_later": Row(_("This was asked for too often."), _("Try again in a minute.")),
    "workspace_frozen": Row(_("This workspace is frozen: %(why)s"), _("Write to us; what runs is not touched by it.")),
    "workspace_not_found": Row(_("There is no such workspace.")),
}
"""What was asked for and cannot be: nothing was changed."""

EVENTS: Final[dict[str, Row]] = {
    "answer_garbled": Row(_("What the machine answers makes no sense.")),
    "balance_empty": Row(
        _("It was stopped because the balance does not cover the next minute."), _("Add credit and deploy it again.")
    ),
    "booting": Row(_("The machine is rented; we are waiting until it can be reached.")),
    "charging_began": Row(_("Charging began.")),
    "checking": Row(_("The machine can be reached; we are comparing it with what was ordered.")),
    "checksum_mismatch": Row(
        _("A downloaded file is not the one that the hub lists, time after time."),
        _("Deploy it again; if it happens again, tell us."),
    ),
    "command_failed": Row(_("A command on the machine failed.")),
    "customer_let_in": Row(_("Your SSH keys were let in: %(keys)s.")),
    "deadline_passed": Row(_("It took too long; we gave up."), _("Deploy it again; if it happens again, tell us.")),
    "demo_ended": Row(_("It was stopped because the demo ended.")),
    "disk_full": Row(_("The machine's disk is full."), _("Choose a machine with more disk.")),
    "downloading": Row(_("The engine is installed; the weights are being downloaded.")),
    "engine_crash_limit": Row(
        _("The engine crashed again and again, and was given up."),
        _("Read its log: a shorter context or other arguments may help."),
    ),
    "engine_did_not_recover": Row(
        _("The engine did not recover within ten minutes."), _("Read its log, then deploy it again.")
    ),
    "engine_missing": Row(
        _("The engine is not on the machine, or does not start at all."),
        _("Deploy it again; if it happens again, tell us."),
    ),
    "facts_garbled": Row(_("What the machine says of itself makes no sense.")),
    "fetch_crashed": Row(
        _("The download ended unexpectedly again and again."), _("Deploy it again; if it happens again, tell us.")
    ),
    "gated": Row(
        _("The model hub does not give this model to your token."),
        _("Accept the model's licence at the hub, and give a token of the same account."),
    ),
    "host_key_changed": Row(
        _("Another machine answers at the address of yours; we did not connect."), _("Deploy it again.")
    ),
    "host_lost": Row(_("The connection to the machine was cut.")),
    "host_missing": Row(_("The host that the machine was on has been removed.")),
    "host_timeout": Row(_("The machine does not answer in time.")),
    "host_unreachable": Row(_("The machine cannot be reached.")),
    "hub_unreachable": Row(_("The machine could not reach the model hub."), _("Deploy it again.")),
    "installing": Row(_("The machine is as ordered; the engine is being installed.")),
    "let_in_asked": Row(_("Early access was asked for: charging begins when the machine can be reached.")),
    "limit_stop_at": Row(_("It was stopped at the time that was set for it.")),
    "limit_usd": Row(_("It was stopped because it reached its spending limit.")),
    "loading": Row(_("The weights are there; the engine is loading them.")),
    "login_refused": Row(_("The machine does not let us in.")),
    "machine_disk_too_small": Row(_("The machine has %(there_bytes)s of free disk, and %(needed_bytes)s are needed.")),
    "machine_gpus_missing": Row(_("The machine shows %(there)s GPUs, and %(ordered)s were ordered.")),
    "machine_lost": Row(_("The machine is gone: its provider does not list it any more."), _("Deploy it again.")),
    "machine_lost_touch": Row(
        _("The machine could not be reached for ten minutes. Time since its last sign of life is not charged."),
        _("Deploy it again."),
    ),
    "machine_memory_too_small": Row(_("The machine has %(there_gb)s of memory, and %(needed_gb)s are needed.")),
    "machine_missing": Row(
        _("We lost track of the machine; this is our mistake."), _("Deploy it again. Nothing is charged.")
    ),
    "machine_no_python": Row(_("The machine has no Python 3.8 or newer.")),
    "machine_released": Row(_("The machine was given back and wiped.")),
    "next_offer": Row(_("The machine was not as ordered; another one is being rented at the same price.")),
    "no_base": Row(_("Nothing of ours is on the machine any more.")),
    "not_found": Row(
        _("The model hub does not have a file that it listed."),
        _("Ask for a new quote; we look at the repository again."),
    ),
    "port_taken": Row(_("Another program on the machine has taken the engine's port."), _("Deploy it again.")),
    "price_above_ceiling": Row(
        _("The provider asks %(cost)s per hour for the machine, more than the %(ceiling)s that it may cost."),
        _("Ask for a new quote. Nothing is charged."),
    ),
    "price_renewed": Row(_("The price of %(price_usd)s per hour holds for another term, until %(day)s.")),
    "price_term_ends": Row(_("The term of the price of %(price_usd)s per hour ends on %(day)s; it is then renewed.")),
    "python_missing": Row(_("The machine has no Python 3.8 or newer.")),
    "recovered": Row(_("The engine answers again.")),
    "release_overdue": Row(
        _("A machine that was asked to be released a day ago is still there. You are not charged for it.")
    ),
    "release_pending": Row(_("The machine is not released yet; we go on trying.")),
    "renting": Row(_("A machine is being rented.")),
    "requested": Row(_("Asked for; %(hold)s is held.")),
    "restart_asked": Row(_("A restart was asked for.")),
    "restarted": Row(_("The engine was restarted.")),
    "running": Row(_("It runs and has answered.")),
    "status_garbled": Row(_("What the machine says of itself makes no sense.")),
    "stopped": Row(_("It is stopped, and the machine is gone with everything that was on it.")),
    "stopped_by_customer": Row(_("It was stopped as you asked; unused time has been returned.")),
    "stopped_by_staff": Row(_("It was stopped by our staff."), _("Write to us if you do not know why.")),
    "stopping": Row(_("It is being stopped.")),
    "truncated": Row(_("The download was cut short again and again."), _("Deploy it again.")),
    "unhealthy": Row(_("The engine does not answer; it is being brought back.")),
    "wipe_incomplete": Row(_("Something could not be removed from the machine yet; we go on trying.")),
}
"""What happened to a deployment, and why one ended."""
