from modeltranslation.translator import TranslationOptions, register

from catalog.models import Gpu, Provider


@register(Gpu)
class GpuTranslation(TranslationOptions):
    fields = ("summary",)


@register(Provider)
class ProviderTranslation(TranslationOptions):
    fields = ("blurb",)
